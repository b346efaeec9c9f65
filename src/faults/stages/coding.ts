/**
 * Third stage: encodes the content with gzip or Brotli. Both encoders encode one event at a time, so that the client can decode
 * each event at once.
 */
import { constants, crc32, deflateRawSync } from "node:zlib";
import type { FaultRun } from "../plan/fault-run.ts";
import type { AnswerHead, Part, PartReceiver } from "../plan/types.ts";
import { fieldOf, withField } from "./heads.ts";

/** Bytes that zlib's output buffer has in addition to the size of the input, up to a limit. */
const ROOM_LEAST = 64;
const ROOM_MOST = 65_536;

/** Encodes a body, one piece per call. */
interface Encoder {
  push(bytes: Uint8Array): Uint8Array;
  end(): Uint8Array;
}

/** Compresses one piece. Allocates a small buffer for a short piece, because zlib allocates 16 KiB by default. */
function deflated(bytes: Uint8Array): Uint8Array {
  const chunkSize = Math.min(ROOM_MOST, bytes.length + ROOM_LEAST);
  return deflateRawSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH, chunkSize });
}

/** Makes an encoder for gzip (RFC 1952). Each piece becomes whole deflate blocks without the flag of the last block. */
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
      end[0] = 3; // a deflate block without data, marked as the last block
      end.writeUInt32LE(sum, 2);
      end.writeUInt32LE(length % 2 ** 32, 6);
      return Buffer.concat([opening(), end]);
    },
  };
}

const BLOCK_MOST = 65_536;

/**
 * Makes an encoder for Brotli (RFC 7932). Each piece becomes uncompressed blocks, each with a header of 20 bits that contains
 * the length of the block.
 */
function brotli(): Encoder {
  let begun = false;
  return {
    push(bytes) {
      const blocks: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; at += BLOCK_MOST) {
        const block = bytes.subarray(at, at + BLOCK_MOST);
        const header = Buffer.alloc(3);
        // One bit before the first header sets the window to 64 KiB.
        header.writeUIntLE((2 ** 19 + (block.length - 1) * 8) * (begun ? 1 : 2), 0, 3);
        begun = true;
        blocks.push(header, block);
      }
      return Buffer.concat(blocks);
    },
    end: () => Buffer.from([begun ? 3 : 6]),
  };
}

export class CodingStage implements PartReceiver {
  readonly #down: PartReceiver;
  readonly #charset: FaultRun | null;
  readonly #coding: FaultRun | null;
  #encoder: Encoder | null = null;
  #waiting: Part[] = [];

  constructor(runs: readonly FaultRun[], down: PartReceiver) {
    this.#down = down;
    this.#charset = runs.find(({ id }) => id === "B2") ?? null;
    this.#coding = runs.find(({ id }) => id === "H6") ?? null;
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
    this.#waiting.push(part);
    if (this.#waiting.length >= this.#coding!.number("events")) this.#release();
  }

  /** Returns the index of the first event, from `event` on, that this stage encodes. */
  next(event: number): number {
    return this.#encoder === null ? Number.POSITIVE_INFINITY : event;
  }

  wait(us: number): void {
    this.#down.wait(us);
  }

  finish(): void {
    this.#release();
    const last = this.#coding?.word().endsWith("-cut") ? null : (this.#encoder?.end() ?? null);
    if (last !== null)
      this.#down.part({ bytes: last, event: this.#event, from: 0, completeEvents: 0, flush: true, done: true });
    this.#down.finish();
  }

  #event = 0;

  #release(): void {
    const parts = this.#waiting;
    const last = parts.at(-1);
    if (last === undefined) return;
    this.#waiting = [];
    this.#event = last.event;
    const bytes = this.#encoder!.push(Buffer.concat(parts.map((part) => part.bytes)));
    const completeEvents = parts.reduce((sum, part) => sum + part.completeEvents, 0);
    this.#down.part({ ...last, bytes, completeEvents });
  }
}
