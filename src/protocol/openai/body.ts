/** How is a request's body read without holding more than is allowed? */

/** null: longer than `maxBytes`; a stated length is refused unread, a chunked body as soon as it is too long. */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array | null> {
  const stated = request.headers.get("content-length");
  if (stated !== null) return Number(stated) > maxBytes ? null : request.bytes();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of request.body ?? []) {
    bytes += part.length;
    if (bytes > maxBytes) return null;
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
