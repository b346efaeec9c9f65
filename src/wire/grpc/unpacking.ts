/**
 * Decompresses messages of calls whose `grpc-encoding` is gzip or deflate, within a limit. Short messages are decompressed at
 * once. A thread of the runtime decompresses longer ones part by part. So they do not block the event loop, and a small message
 * that expands hugely stops at the limit.
 */
import { zlib } from "../../base/zlib.ts";
import type { GrpcEncoding } from "./compression.ts";
import { freeBuffer, GatheredBytes } from "./gathered-bytes.ts";
import type { HeldMessages } from "./held-messages.ts";
import { TaskLimiter } from "./task-limiter.ts";

/** Largest compressed message that is decompressed at once, if it expands to at most `AT_ONCE_BYTES`. */
const SHORT_BYTES = 4096;
const AT_ONCE_BYTES = 65_536;
/** Size of the parts that the thread produces. Copying one takes about 0.1 ms. */
const PART_BYTES = 262_144;

/**
 * Why a message was not decompressed. "large": above its limit. "held": above the limit of all calls. "broken": not of this
 * encoding, or incomplete.
 */
export type UnpackFailure = "large" | "held" | "broken";

export class Unpacking {
  /** Runs one decompression at a time, because each may take as much memory as the largest message before it fails. */
  readonly #tasks = new TaskLimiter(1);

  /** `most`: largest decompressed message, in bytes. */
  constructor(
    private readonly most: number,
    private readonly held: HeldMessages,
  ) {}

  /**
   * Decompresses a message. A message returned by a promise is counted as held; the caller must subtract it. `isOver`: returns
   * true if the call is over, which makes the result "broken".
   */
  unpacked(
    bytes: Uint8Array,
    encoding: GrpcEncoding,
    isOver: () => boolean,
  ): Buffer | UnpackFailure | Promise<Buffer | UnpackFailure> {
    if (bytes.length <= SHORT_BYTES) {
      const most = Math.min(AT_ONCE_BYTES, this.most);
      const plain = unpackNow(bytes, encoding, most);
      if (plain !== "large" || most === this.most) return plain;
    }
    return this.#tasks.run(() => this.#unpackInParts(bytes, encoding, isOver));
  }

  #unpackInParts(bytes: Uint8Array, encoding: GrpcEncoding, isOver: () => boolean): Promise<Buffer | UnpackFailure> {
    if (isOver()) return Promise.resolve("broken");
    const gathered = new GatheredBytes();
    const expected = Math.min(this.most, encoding === "gzip" ? statedLength(bytes) : this.most);
    const held = this.held;
    return new Promise((settle) => {
      const unpacker = (encoding === "gzip" ? zlib().createGunzip : zlib().createInflate)({ chunkSize: PART_BYTES });
      let isSettled = false;
      const fail = (why: UnpackFailure) => {
        if (isSettled) return;
        isSettled = true;
        unpacker.destroy();
        held.bytes -= gathered.bytes;
        gathered.free();
        settle(why);
      };
      const add = (part: Buffer<ArrayBuffer>) => {
        const isCopied = gathered.add(part, expected > gathered.bytes ? expected : this.most);
        held.bytes += part.length;
        // zlib no longer uses a part that it has filled. Without freeing, hundreds of megabytes would wait for the garbage
        // collector.
        if (isCopied && part.length === part.buffer.byteLength) freeBuffer(part);
      };
      unpacker.on("data", (part: Buffer<ArrayBuffer>) => {
        if (isSettled) return;
        if (isOver()) fail("broken");
        else if (gathered.bytes + part.length > this.most) fail("large");
        else if (held.bytes + part.length > held.most) fail("held");
        else add(part);
      });
      unpacker.on("error", () => fail("broken"));
      unpacker.on("end", () => {
        if (isSettled) return;
        isSettled = true;
        settle(gathered.take());
      });
      unpacker.end(bytes);
    });
  }
}

/** Returns the decompressed size that gzip states in its last four bytes. */
const statedLength = (bytes: Uint8Array): number =>
  bytes.length < 4 ? 0 : new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 4, 4).getUint32(0, true);

function unpackNow(bytes: Uint8Array, encoding: GrpcEncoding, most: number): Buffer | "large" | "broken" {
  try {
    return (encoding === "gzip" ? zlib().gunzipSync : zlib().inflateSync)(bytes, { maxOutputLength: most });
  } catch (error) {
    return (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE" ? "large" : "broken";
  }
}
