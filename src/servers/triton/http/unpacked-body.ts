/**
 * Unpacks a body of `/infer` as the real server does (`data_compressor.h`, 2026). The bytes determine whether they are gzip or
 * zlib, and the header does not. An error of zlib is not an error of the request.
 */

import { zlib } from "../../../base/zlib.ts";
import { startOfDeflate } from "../../../wire/http/deflate-start.ts";
import type { HeldBody } from "../inference/held-bodies.ts";
import { beyond, type InputLimits, mostInputBytes } from "./input-limit.ts";

/** Bodies up to this size are unpacked at once. Larger ones may become megabytes, and a thread of the runtime unpacks them. */
const UNPACKED_AT_ONCE_BYTES = 4096;

/**
 * Returns the content of the first gzip member or zlib stream. Bytes after it, its checksum and its end do not count.
 * Returns nothing for a body that is neither. Throws a `TritonError` for content beyond the limit. `held`: counts the content
 * in place of the body, from before it is unpacked.
 */
export function unpackedBody(body: Uint8Array, limits: InputLimits, held: HeldBody): Uint8Array | Promise<Uint8Array> {
  const from = startOfDeflate(body);
  if (from === null) return new Uint8Array();
  const most = mostInputBytes(limits);
  const { constants, inflateRaw, inflateRawSync } = zlib();
  const how = { maxOutputLength: most, finishFlush: constants.Z_SYNC_FLUSH };
  const packed = body.subarray(from);
  const inflated = () =>
    new Promise<Uint8Array>((done, fail) => {
      inflateRaw(packed, how, (error, content) => (error ? fail(error) : done(content)));
    });
  const instead = (error: unknown): Uint8Array => {
    if (!(error instanceof RangeError)) return new Uint8Array();
    throw beyond(limits, (bytes) => `Decompressed data size exceeds the maximum allowed value of ${bytes} bytes.`);
  };
  if (packed.length > UNPACKED_AT_ONCE_BYTES) return held.replace(most, () => inflated().catch(instead));
  try {
    return inflateRawSync(packed, how);
  } catch (error) {
    return instead(error);
  }
}
