/** In which way are messages packed? Each says whether it is; the call says how. */
import { deflateSync, gunzipSync, gzipSync, inflateSync } from "node:zlib";

export type GrpcEncoding = "gzip" | "deflate";
/** As an answer tells what a request may use. */
export const ACCEPTED = "identity, deflate, gzip";

export const isEncoding = (name: string): name is GrpcEncoding => name === "gzip" || name === "deflate";

/** null: it cannot be unpacked; "large": it would be larger than that. */
export function unpackedMessage(bytes: Uint8Array, encoding: GrpcEncoding, most: number): Uint8Array | "large" | null {
  try {
    return (encoding === "gzip" ? gunzipSync : inflateSync)(bytes, { maxOutputLength: most });
  } catch (error) {
    return (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE" ? "large" : null;
  }
}

export const packedMessage = (bytes: Uint8Array, encoding: GrpcEncoding): Buffer =>
  (encoding === "gzip" ? gzipSync : deflateSync)(bytes);

export type CompressionLevel = "none" | "low" | "medium" | "high";

/** What a level means for a client that accepts these: `CompressionAlgorithmForLevel` of gRPC's core, 1.85. */
export function encodingOf(level: CompressionLevel, accepted: string): GrpcEncoding | null {
  if (level === "none") return null;
  const names = accepted.split(",").map((one) => one.trim());
  const ranked = (["gzip", "deflate"] as const).filter((one) => names.includes(one));
  return (level === "low" ? ranked[0] : ranked.at(-1)) ?? null;
}
