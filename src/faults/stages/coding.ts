/** Third stage: the body's coding. Both are put together event by event from pieces that can follow each other. */
import { constants, crc32, deflateRawSync } from "node:zlib";
import type { Firing } from "../plan/firing.ts";
import type { AnswerHead, Downstream, Part } from "../plan/types.ts";
import { fieldOf, withField } from "./heads.ts";

/** Bytes that are had ready for zlib's output: as many as come in, and these, at most so many at a time. */
const ROOM_LEAST = 64;
const ROOM_MOST = 65_536;

/** Puts bytes into a coding, piece by piece. */
interface Encoder {
  push(bytes: Uint8Array): Uint8Array;
  end(): Uint8Array;
}

/** What comes of a short piece needs little room, and zlib takes 16 KiB unless it is told. */
function deflated(bytes: Uint8Array): Uint8Array {
  const chunkSize = Math.min(ROOM_MOST, bytes.length + ROOM_LEAST);
  return deflateRawSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH, chunkSize });
}

/** RFC 1952: each piece is whole blocks of deflate, none of them the last. */
function gzip(): Encoder {
  let [begun, sum, length] = [false, 0, 0];
  const opening = () => (begun ? Buffer.alloc(0) : Buffer.from([31, 139, 8, 0, 0, 0, 0, 0, 0, 255]));
  return {
    push(bytes) {
      sum = crc32(bytes, sum);
      length += bytes.length;
      const piece = Buffer.concat([opening(), deflated(bytes)]);
      begun = true;
      return piece;
    },
    end() {
      const end = Buffer.alloc(10);
      end[0] = 3; // an empty block, the last
      end.writeUInt32LE(sum, 2);
      end.writeUInt32LE(length % 2 ** 32, 6);
      return Buffer.concat([opening(), end]);
    },
  };
}

const BLOCK_MOST = 65_536;

/** RFC 7932: each piece is blocks of bytes as they are, behind 20 bits that say how many. */
function brotli(): Encoder {
  let begun = false;
  return {
    push(bytes) {
      const blocks: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; at += BLOCK_MOST) {
        const block = bytes.subarray(at, at + BLOCK_MOST);
        const header = Buffer.alloc(3);
        // The first bit of all says that the window has 64 KiB.
        header.writeUIntLE((2 ** 19 + (block.length - 1) * 8) * (begun ? 1 : 2), 0, 3);
        begun = true;
        blocks.push(header, block);
      }
      return Buffer.concat(blocks);
    },
    end: () => Buffer.from([begun ? 3 : 6]),
  };
}

export class CodingStage implements Downstream {
  readonly #down: Downstream;
  readonly #charset: Firing | null;
  readonly #coding: Firing | null;
  #encoder: Encoder | null = null;
  #held: Part[] = [];

  constructor(firings: readonly Firing[], down: Downstream) {
    this.#down = down;
    this.#charset = firings.find(({ id }) => id === "B2") ?? null;
    this.#coding = firings.find(({ id }) => id === "H6") ?? null;
  }

  head(head: AnswerHead): void {
    let changed = head;
    const type = fieldOf(head, "content-type");
    if (this.#charset !== null && type !== null) {
      changed = withField(changed, "content-type", type.replace(/;.*/, ""));
      if (this.#charset.word() === "plain") this.#charset.fired++;
    }
    if (this.#coding !== null) {
      const name = this.#coding.word().replace("-cut", "");
      this.#encoder = name === "gzip" ? gzip() : brotli();
      this.#coding.fired++;
      changed = withField(changed, "content-encoding", name);
    }
    this.#down.head(changed);
  }

  part(part: Part): void {
    if (this.#encoder === null) {
      this.#down.part(part);
      return;
    }
    this.#held.push(part);
    if (this.#held.length >= this.#coding!.number("events")) this.#release();
  }

  /** The first event from this one on that is coded. */
  next(event: number): number {
    return this.#encoder === null ? Number.POSITIVE_INFINITY : event;
  }

  wait(us: number): void {
    this.#down.wait(us);
  }

  finish(): void {
    this.#release();
    const last = this.#coding?.word().endsWith("-cut") ? null : (this.#encoder?.end() ?? null);
    if (last !== null) this.#down.part({ bytes: last, event: this.#event, from: 0, owns: 0, flush: true, done: true });
    this.#down.finish();
  }

  #event = 0;

  #release(): void {
    const held = this.#held;
    const last = held.at(-1);
    if (last === undefined) return;
    this.#held = [];
    this.#event = last.event;
    const bytes = this.#encoder!.push(Buffer.concat(held.map((part) => part.bytes)));
    const owns = held.reduce((sum, part) => sum + part.owns, 0);
    this.#down.part({ ...last, bytes, owns });
  }
}
