/** The thread that collects and prints. First message: the setup; then one message per page wanted, answered in order. */
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

const encoder = new TextEncoder();
let read: ReturnType<typeof heldReader>;
let render: ReturnType<typeof pages>;
let shared: AllPages | null = null;

self.onmessage = async ({ data }: MessageEvent<Setup | PageOrder>) => {
  if ("identity" in data) {
    read = heldReader(data.shape, data.refreshes);
    render = pages(data.identity);
    if (data.pages) shared = new AllPages(data.pages);
    return;
  }
  const bytes = encoder.encode(await render(data.view, read(data.numbers ?? shared!.read()), data.format));
  self.postMessage(bytes, [bytes.buffer]);
};
