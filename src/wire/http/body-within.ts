/** Reads a body of limited length. */
import type { HttpRequest } from "./request.ts";

/** Reads the whole body. Returns null if it is longer than `most` bytes; the rest is then discarded as it arrives. */
export async function bodyWithin(
  { body }: Pick<HttpRequest, "body">,
  most: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body ?? []) {
    bytes += part.length;
    if (bytes > most) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}
