/** Names the encodings of messages, packs answers, and chooses the encoding of answers. Each message says whether it is packed. */
import { zlib } from "../../base/zlib.ts";

export type GrpcEncoding = "gzip" | "deflate";
/** As an answer tells what a request may use. */
export const ACCEPTED = "identity, deflate, gzip";

export const isEncoding = (name: string): name is GrpcEncoding => name === "gzip" || name === "deflate";

export const packedMessage = (bytes: Uint8Array, encoding: GrpcEncoding): Buffer =>
  (encoding === "gzip" ? zlib().gzipSync : zlib().deflateSync)(bytes);

export type CompressionLevel = "none" | "low" | "medium" | "high";

/** What a level means for a client that accepts these: `CompressionAlgorithmForLevel` of gRPC's core, 1.85. */
export function encodingOf(level: CompressionLevel, accepted: string): GrpcEncoding | null {
  if (level === "none") return null;
  const names = accepted.split(",").map((one) => one.trim());
  const ranked = (["gzip", "deflate"] as const).filter((one) => names.includes(one));
  return (level === "low" ? ranked[0] : ranked.at(-1)) ?? null;
}
