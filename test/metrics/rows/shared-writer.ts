/** A thread that writes a page without a pause. Every number of a copy is the number of the write. */
import { SharedPage } from "../../../src/metrics/rows/shared-page.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<{ shared: SharedArrayBuffer; length: number }>) => {
  const page = new SharedPage(new Uint8Array(data.shared), data.length);
  for (let turn = 1; ; turn++) page.write((numbers) => void numbers.fill(turn));
};
