/** What has somebody sent, if it is not too much? */

/** The whole body; null: it is longer, and what is left of it is thrown away as it comes. */
export async function bodyWithin(
  { body }: Pick<Request, "body">,
  most: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += part.length;
    if (bytes > most) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}
