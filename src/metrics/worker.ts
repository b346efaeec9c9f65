/** The thread that collects and prints. First message: the setup; then one message per page wanted, answered in order. */
import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import type { View } from "./dialects.ts";
import { heldReader } from "./held.ts";
import type { Setup } from "./identity.ts";
import { type Format, pages } from "./page.ts";
import { AllPages } from "./shared.ts";

export interface PageOrder {
  readonly view: View;
  readonly format: Format;
  /** The held copies; null: in the shared pages. */
  readonly numbers: Float64Array | null;
}

declare const self: Worker;

/** Of this thread: on a busy machine a page waits for the streams, and not they for it. */
const NICE = 10;

const encoder = new TextEncoder();
let read: ReturnType<typeof heldReader>;
let render: ReturnType<typeof pages>;
let shared: AllPages | null = null;

self.onmessage = async ({ data }: MessageEvent<Setup | PageOrder>) => {
  if ("identity" in data) {
    stepBack();
    read = heldReader(data.shape, data.refreshes);
    render = pages(data.identity);
    if (data.pages) shared = new AllPages(data.pages);
    return;
  }
  const bytes = encoder.encode(await render(data.view, read(data.numbers ?? shared!.read()), data.format));
  self.postMessage(bytes, [bytes.buffer]);
};

/** Where threads have priorities of their own; elsewhere it would be the whole process's. */
function stepBack(): void {
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICE);
  } catch {
    // No /proc, or not allowed: all threads are equal.
  }
}
