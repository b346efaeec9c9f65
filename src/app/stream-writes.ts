/** How do the events of streams leave this server? Decided once at the start, by trying. */
import type { StreamWritesMode } from "../config/stream-writes.ts";
import type { ServeConfig } from "../config/types.ts";
import { nativeSend } from "../http/socket/native-send.ts";
import { SendBatch } from "../http/socket/send-batch.ts";

export interface StreamWrites {
  readonly mode: StreamWritesMode;
  /** null: each event is a write by itself. */
  readonly sends: SendBatch | null;
  /** Why, where something else than the order decided it. */
  readonly why?: string;
}

/** `--stream-writes batched` where that cannot be. */
export class NoBatchedWrites extends Error {
  override readonly name = "NoBatchedWrites";
}

/** Rejects with `NoBatchedWrites`. */
export async function streamWritesOf(
  { streamWrites = "single", tls }: Pick<ServeConfig, "streamWrites" | "tls">,
  platform: string = process.platform,
): Promise<StreamWrites> {
  if (streamWrites === "single") return { mode: "single", sends: null };
  const native = tls ? { refused: "TLS is Bun's" } : await nativeSend(platform);
  if (typeof native === "function") return { mode: "batched", sends: new SendBatch(native) };
  if (streamWrites === "batched") throw new NoBatchedWrites(native.refused);
  return { mode: "single", sends: null, why: native.refused };
}
