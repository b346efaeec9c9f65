/** Chooses how events of streams are written: by native code, or by a call from JavaScript each. Tries the native code once, at the start. */

import { UserError } from "../base/start-errors.ts";
import { Lanes, TokenTexts } from "../engine/interface/lanes.ts";
import { nativeLanes, tryLanes } from "../wire/lanes/native-lanes.ts";
import type { StreamWritesMode } from "../wire/lanes/stream-write-modes.ts";
import type { KernelConfig } from "./kernel-config.ts";

export interface StreamWrites {
  readonly mode: StreamWritesMode;
  /** Creates the lanes of an engine. null: each event is a call from JavaScript. */
  readonly lanes: (() => Lanes) | null;
  /** Reason why the mode differs from the wanted one. Absent: it does not. */
  readonly why?: string;
}

/** Rejects with a `UserError` if `--stream-writes batched` is not possible here. */
export async function streamWritesOf(
  { listen: { streamWrites = "auto", tls } }: Pick<KernelConfig, "listen">,
  platform: string = process.platform,
): Promise<StreamWrites> {
  if (streamWrites === "single") return { mode: "single", lanes: null };
  const native = tls
    ? { refused: "the connections use TLS" }
    : await (platform === process.platform ? nativeLanes() : tryLanes(platform));
  if (typeof native === "function") {
    const texts = new TokenTexts();
    return { mode: "batched", lanes: () => new Lanes(native, texts) };
  }
  if (streamWrites === "batched")
    throw new UserError(
      "--stream-writes batched",
      `not possible here (${native.refused}); auto uses it where possible`,
    );
  return { mode: "single", lanes: null, why: native.refused };
}
