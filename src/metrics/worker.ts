/** The thread that collects and prints. First message: the setup; then one message per page wanted, answered in order. */
import type { View } from "./dialects.ts";
import { heldReader } from "./held.ts";
import type { Setup } from "./identity.ts";
import { type Format, pages } from "./page.ts";

export interface PageOrder {
  readonly view: View;
  readonly format: Format;
  /** The held copies. */
  readonly numbers: Float64Array;
}

declare const self: Worker;

const encoder = new TextEncoder();
let read: ReturnType<typeof heldReader>;
let render: ReturnType<typeof pages>;

self.onmessage = async ({ data }: MessageEvent<Setup | PageOrder>) => {
  if ("identity" in data) {
    read = heldReader(data.shape, data.refreshes);
    render = pages(data.identity);
    return;
  }
  const bytes = encoder.encode(await render(data.view, read(data.numbers), data.format));
  self.postMessage(bytes, [bytes.buffer]);
};
