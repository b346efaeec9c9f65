/**
 * Unpacks the messages of calls whose `grpc-encoding` is gzip or deflate, within a limit. A short message is unpacked at
 * once. Another one is unpacked by a thread of the runtime, part by part, so that it neither blocks the event loop nor
 * takes more memory than the limit, however small its packed bytes are.
 */
import { zlib } from "../../base/zlib.ts";
import { AtATime } from "./at-a-time.ts";
import type { GrpcEncoding } from "./compression.ts";
import { freed, GatheredBytes } from "./gathered-bytes.ts";
import type { HeldMessages } from "./held-messages.ts";

/** Packed bytes of a message that is unpacked at once, if no more than `AT_ONCE_BYTES` come of it. */
const SHORT_BYTES = 4096;
const AT_ONCE_BYTES = 65_536;
/** Bytes that the thread unpacks before the event loop takes them: 0.1 ms of copying. */
const PART_BYTES = 262_144;

/** "large": more than the limit. "held": all calls hold too much. "broken": not of this encoding, or cut off. */
export type NotUnpacked = "large" | "held" | "broken";

export class Unpacking {
  readonly #most: number;
  readonly #held: HeldMessages;
  /** One at a time: each may take as much as the largest message before it turns out to be too large. */
  readonly #line = new AtATime(1);

  /** `most`: largest message, unpacked, in bytes. */
  constructor(most: number, held: HeldMessages) {
    this.#most = most;
    this.#held = held;
  }

  /**
   * The message, or why there is none. A message that comes as a promise counts in the held bytes, and its receiver takes
   * it off again. `isOver` tells that nobody wants it any more, which counts as broken.
   */
  unpacked(
    bytes: Uint8Array,
    encoding: GrpcEncoding,
    isOver: () => boolean,
  ): Buffer | NotUnpacked | Promise<Buffer | NotUnpacked> {
    if (bytes.length <= SHORT_BYTES) {
      const most = Math.min(AT_ONCE_BYTES, this.#most);
      const plain = unpackedAtOnce(bytes, encoding, most);
      if (plain !== "large" || most === this.#most) return plain;
    }
    return this.#line.run(() => this.#inParts(bytes, encoding, isOver));
  }

  #inParts(bytes: Uint8Array, encoding: GrpcEncoding, isOver: () => boolean): Promise<Buffer | NotUnpacked> {
    if (isOver()) return Promise.resolve("broken");
    const gathered = new GatheredBytes();
    const expected = Math.min(this.#most, encoding === "gzip" ? lengthSaid(bytes) : this.#most);
    const held = this.#held;
    return new Promise((settle) => {
      const unpacker = (encoding === "gzip" ? zlib().createGunzip : zlib().createInflate)({ chunkSize: PART_BYTES });
      let isSettled = false;
      const fail = (why: NotUnpacked) => {
        if (isSettled) return;
        isSettled = true;
        unpacker.destroy();
        held.bytes -= gathered.bytes;
        gathered.free();
        settle(why);
      };
      const add = (part: Buffer<ArrayBuffer>) => {
        const isCopied = gathered.add(part, expected > gathered.bytes ? expected : this.#most);
        held.bytes += part.length;
        // zlib is done with a part that it has filled. Hundreds of megabytes of them would be collected too late.
        if (isCopied && part.length === part.buffer.byteLength) freed(part);
      };
      unpacker.on("data", (part: Buffer<ArrayBuffer>) => {
        if (isSettled) return;
        if (isOver()) fail("broken");
        else if (gathered.bytes + part.length > this.#most) fail("large");
        else if (held.bytes + part.length > held.most) fail("held");
        else add(part);
      });
      unpacker.on("error", () => fail("broken"));
      unpacker.on("end", () => {
        if (isSettled) return;
        isSettled = true;
        settle(gathered.taken());
      });
      unpacker.end(bytes);
    });
  }
}

/** The last four bytes of gzip: how long it is when it is unpacked. */
const lengthSaid = (bytes: Uint8Array): number =>
  bytes.length < 4 ? 0 : new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 4, 4).getUint32(0, true);

function unpackedAtOnce(bytes: Uint8Array, encoding: GrpcEncoding, most: number): Buffer | "large" | "broken" {
  try {
    return (encoding === "gzip" ? zlib().gunzipSync : zlib().inflateSync)(bytes, { maxOutputLength: most });
  } catch (error) {
    return (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE" ? "large" : "broken";
  }
}
