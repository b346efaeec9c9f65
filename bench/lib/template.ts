/** Which bytes does our server send, event by event? A capture of one stream, cut into the units that the anchor plays. */
import { readFileSync } from "node:fs";

const HEAD_END = Buffer.from("\r\n\r\n");

/** All bytes of a reader's dump, its reads joined. */
export function dumped(path: string): Buffer {
  const file = readFileSync(path);
  const parts: Buffer[] = [];
  for (let at = 0; at < file.length; ) {
    const length = file.readDoubleLE(at + 8);
    parts.push(file.subarray(at + 16, at + 16 + length));
    at += 16 + length;
  }
  return Buffer.concat(parts);
}

/**
 * One unit per HTTP chunk: what the server hands to one `send`. The response head goes with the first; the end of the
 * body with the last..
 */
export function units(response: Buffer): Buffer[] {
  const head = response.indexOf(HEAD_END) + HEAD_END.length;
  const found: Buffer[] = [];
  for (let at = head; ; ) {
    const line = response.indexOf("\r\n", at);
    const size = Number.parseInt(response.toString("latin1", at, line), 16);
    if (!(size >= 0)) throw new Error("the capture is not a complete chunked body");
    const end = line + 2 + size + 2;
    if (size === 0) {
      found[0] = Buffer.concat([response.subarray(0, head), found[0]!]);
      found[found.length - 1] = Buffer.concat([found.at(-1)!, response.subarray(at, end)]);
      return found;
    }
    found.push(response.subarray(at, end));
    at = end;
  }
}

/** The anchor's file: count, lengths, bytes. */
export function packed(parts: readonly Buffer[]): Buffer {
  const lengths = Uint32Array.of(parts.length, ...parts.map((part) => part.length));
  return Buffer.concat([Buffer.from(lengths.buffer), ...parts]);
}

/** Events (each ends with an empty line) in these bytes. */
export function eventsIn(bytes: Buffer): number {
  let found = 0;
  for (let at = 0; ; found++) {
    at = bytes.indexOf("\n\n", at) + 1;
    if (at === 0) return found;
  }
}
