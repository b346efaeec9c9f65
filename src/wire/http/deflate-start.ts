/** Finds the deflate stream in bytes that are gzip (RFC 1952) or zlib (RFC 1950), whichever they are. */

const ZLIB_HEADER_BYTES = 2;
const GZIP_HEADER_BYTES = 10;
/** Flags of a gzip header (RFC 1952, 2.3.1). */
const FHCRC = 2;
const FEXTRA = 4;
const FNAME = 8;
const FCOMMENT = 16;
const RESERVED = 0xe0;
const DEFLATE = 8;

/** Returns where the deflate stream begins, or null if the header is neither of gzip nor of zlib. */
export function startOfDeflate(body: Uint8Array): number | null {
  const at = (index: number): number => body[index] ?? 0;
  if (at(0) !== 0x1f || at(1) !== 0x8b) {
    const isZlib = (at(0) & 15) === DEFLATE && at(0) >> 4 <= 7 && (at(0) * 256 + at(1)) % 31 === 0;
    const needsDictionary = (at(1) & 32) !== 0;
    return isZlib && !needsDictionary ? ZLIB_HEADER_BYTES : null;
  }
  const flags = at(3);
  if (at(2) !== DEFLATE || (flags & RESERVED) !== 0) return null;
  let next = GZIP_HEADER_BYTES;
  if (flags & FEXTRA) next += 2 + at(next) + at(next + 1) * 256;
  for (const text of [FNAME, FCOMMENT]) {
    if ((flags & text) === 0) continue;
    const end = body.indexOf(0, next);
    if (end < 0) return null;
    next = end + 1;
  }
  if (flags & FHCRC) next += 2;
  return next < body.length ? next : null;
}
