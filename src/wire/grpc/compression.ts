/** Compresses answers, and chooses their encoding. In gRPC each message states whether it is compressed. */
import { zlib } from "../../base/zlib.ts";

export type GrpcEncoding = "gzip" | "deflate";
/** The encodings that requests may use, as sent in `grpc-accept-encoding`. */
export const ACCEPTED = "identity, deflate, gzip";

export const isEncoding = (name: string): name is GrpcEncoding => name === "gzip" || name === "deflate";

export const packedMessage = (bytes: Uint8Array, encoding: GrpcEncoding): Buffer =>
  (encoding === "gzip" ? zlib().gzipSync : zlib().deflateSync)(bytes);

export type CompressionLevel = "none" | "low" | "medium" | "high";

/**
 * Returns the encoding that a level means for a client that accepts the listed ones; null for none. Like
 * `CompressionAlgorithmForLevel` of gRPC's core 1.85.
 */
export function encodingOf(level: CompressionLevel, accepted: string): GrpcEncoding | null {
  if (level === "none") return null;
  const names = accepted.split(",").map((name) => name.trim());
  const ranked = (["gzip", "deflate"] as const).filter((name) => names.includes(name));
  return (level === "low" ? ranked[0] : ranked.at(-1)) ?? null;
}
