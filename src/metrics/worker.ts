/** The thread that collects and prints. First message: the identity; then one message per page wanted, answered in order. */
import { unflatten } from "./flat.ts";
import { pages, type View } from "./page.ts";
import type { Identity } from "./table.ts";

export interface PageOrder {
  readonly view: View;
  readonly numbers: Float64Array;
}

declare const self: Worker;

const encoder = new TextEncoder();
let render: ReturnType<typeof pages>;

self.onmessage = async ({ data }: MessageEvent<Identity | PageOrder>) => {
  if (!("view" in data)) {
    render = pages(data);
    return;
  }
  const bytes = encoder.encode(await render(data.view, unflatten(data.numbers)));
  self.postMessage(bytes, [bytes.buffer]);
};
