/**
 * Reads a response's body or a file, up to a limit. `Response.text()` and `readFileSync` have no limit. An endless answer,
 * one that decompresses to gigabytes, or `/dev/zero` would fill memory until the process is killed.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/**
 * Returns the body of a response. Returns null if it has more than `maxBytes` bytes, and then does not read the rest. Rejects
 * if the connection is lost.
 */
export async function bodyAtMost(
  { body }: Pick<Response, "body">,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  if (body !== null) {
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > maxBytes) {
        void reader.cancel().catch(() => undefined);
        return null;
      }
      pieces.push(value);
    }
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** The bytes of a file and the time of its last change. The bytes are null if there are more than `maxBytes`. */
export interface FileAtMost {
  readonly bytes: Uint8Array<ArrayBuffer> | null;
  readonly mtimeMs: number;
}

/** Bytes of the first buffer for a pipe or a device, which has no known size. */
const UNKNOWN_SIZE = 1 << 16;

/** Reads a file, but at most one byte more than `maxBytes`. Throws the system's error if the file cannot be read. */
export function fileAtMost(path: string, maxBytes: number): FileAtMost {
  const file = openSync(path, "r");
  try {
    const stat = fstatSync(file);
    let bytes = new Uint8Array(Math.min(stat.isFile() ? stat.size : UNKNOWN_SIZE, maxBytes + 1));
    let length = 0;
    for (;;) {
      if (length === bytes.length) {
        if (length > maxBytes || stat.isFile()) break;
        const larger = new Uint8Array(Math.min(2 * length, maxBytes + 1));
        larger.set(bytes);
        bytes = larger;
      }
      const count = readSync(file, bytes, length, bytes.length - length, null);
      if (count === 0) break;
      length += count;
    }
    return { bytes: length > maxBytes ? null : bytes.subarray(0, length), mtimeMs: stat.mtimeMs };
  } finally {
    closeSync(file);
  }
}

/** Most bytes of a configuration, script or certificate whose path is the value of an option. */
export const NAMED_FILE_BYTES_MOST = 2 ** 24;

/** Returns a file as text. Throws the system's error if it cannot be read, and an Error if it has more than `maxBytes`. */
export function textAtMost(path: string, maxBytes: number): string {
  const { bytes } = fileAtMost(path, maxBytes);
  if (bytes === null) throw new Error(`it is larger than ${maxBytes / 2 ** 20} MiB`);
  return new TextDecoder().decode(bytes);
}
