/** Splits a recorded stream into units of one event, which the C server (anchor.c) replays. */
import { readFileSync } from "node:fs";

const HEAD_END = Buffer.from("\r\n\r\n");

/** Returns all bytes of a reader's dump. */
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
 * Splits a response into units of one HTTP chunk, which the server sends with one `send`. The first unit also has the response
 * head, and the last unit the end of the body.
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

/** Returns the content of the C server's file: count, lengths, bytes. */
export function packed(parts: readonly Buffer[]): Buffer {
  const lengths = Uint32Array.of(parts.length, ...parts.map((part) => part.length));
  return Buffer.concat([Buffer.from(lengths.buffer), ...parts]);
}

/** Returns the number of events, which end with an empty line. */
export function eventsIn(bytes: Buffer): number {
  let found = 0;
  for (let at = 0; ; found++) {
    at = bytes.indexOf("\n\n", at) + 1;
    if (at === 0) return found;
  }
}
