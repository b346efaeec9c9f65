/**
 * Reads the messages of one call from the bytes of its stream. Each message follows a flag and its length. Delivers one message
 * after the other; while one is decompressed or read, later bytes wait and the client's window does not grow.
 */

import { type EventLoopTurns, turn } from "../../base/pieces.ts";
import { readUint32 } from "../http2/frames.ts";
import type { GrpcCall } from "./call.ts";
import type { GrpcEncoding } from "./compression.ts";
import { GatheredBytes, unpinned } from "./gathered-bytes.ts";
import { type HeldMessages, tooMuchHeld } from "./held-messages.ts";
import type { GrpcStatus } from "./status.ts";
import type { UnpackFailure, Unpacking } from "./unpacking.ts";

/** Bytes before each message: the compression flag and the length. Outgoing messages leave this much room at their start. */
export const MESSAGE_HEAD_BYTES = 5;

/** Time per turn of the event loop in which messages are delivered. */
const TURN_US = 1000;
/** Used microseconds of `TURN_US` up to which no timer is started to reset them. These microseconds then count in later turns. */
const NOTICED_US = 50;

/** Parts that reading shares between all calls of a server. */
export interface IncomingShared {
  /** Largest message in bytes, compressed or not. */
  readonly messageBytes: number;
  readonly held: HeldMessages;
  readonly unpacking: Unpacking;
  readonly turns: EventLoopTurns;
  readonly share: TurnShare;
}

/** The methods of a call that `IncomingMessages` calls. */
type IncomingReceiver = Pick<GrpcCall, "deliver" | "allDelivered" | "refuse" | "fail" | "waits">;

export class IncomingMessages {
  readonly #gathered = new GatheredBytes();
  #busy = false;
  #ended = false;
  #over = false;

  constructor(
    private readonly shared: IncomingShared,
    /** Encoding of compressed messages of the call; null if it announced none. */
    private readonly encoding: GrpcEncoding | null,
    private readonly receiver: IncomingReceiver,
  ) {}

  data(bytes: Uint8Array): void {
    if (this.#over) return;
    if (!this.#busy && this.#gathered.bytes === 0) {
      this.#read(bytes);
      return;
    }
    this.#hold(bytes);
    if (!this.#busy) this.#readHeld();
  }

  /** The client has sent its last byte. */
  end(): void {
    this.#ended = true;
    if (!this.#busy) this.#reportEnd();
  }

  /** Drops the waiting bytes, because the call is over. */
  close(): void {
    this.#over = true;
    this.shared.held.bytes -= this.#gathered.bytes;
    this.#gathered.free();
  }

  #reportEnd(): void {
    if (this.#over || !this.#ended) return;
    if (this.#gathered.bytes > 0) {
      this.#refuse("INTERNAL", "Incomplete message");
      return;
    }
    try {
      this.receiver.allDelivered();
    } catch (error) {
      this.receiver.fail(error);
    }
  }

  #hold(bytes: Uint8Array): void {
    const { held } = this.shared;
    const head = this.#gathered.first ?? bytes;
    const expected = head.length < MESSAGE_HEAD_BYTES ? 0 : MESSAGE_HEAD_BYTES + lengthAt(head, 0);
    if (this.#gathered.add(bytes, expected)) this.shared.turns.consumed?.(bytes.length);
    held.bytes += bytes.length;
    if (held.bytes > held.most) this.receiver.refuse(tooMuchHeld(held));
  }

  /** Reads the waiting bytes if they contain a complete message. Refuses a message that is too large. */
  #readHeld(): void {
    const gathered = this.#gathered;
    if (this.#over || gathered.bytes < MESSAGE_HEAD_BYTES) return;
    gathered.joinFirst(MESSAGE_HEAD_BYTES);
    const length = lengthAt(gathered.first!, 0);
    if (length > this.shared.messageBytes) this.#tooLarge(length);
    else if (gathered.bytes >= MESSAGE_HEAD_BYTES + length) {
      this.shared.held.bytes -= gathered.bytes;
      this.#read(gathered.take());
    }
  }

  /** Delivers the complete messages in `bytes` and keeps the rest. */
  #read(bytes: Uint8Array): void {
    const { turns, share, messageBytes } = this.shared;
    let at = 0;
    while (!this.#over && bytes.length - at >= MESSAGE_HEAD_BYTES) {
      const length = lengthAt(bytes, at);
      if (length > messageBytes) {
        this.#tooLarge(length);
        return;
      }
      const end = at + MESSAGE_HEAD_BYTES + length;
      if (end > bytes.length) break;
      if (share.isUsed) {
        this.#wait(turn(turns));
        break;
      }
      const fromUs = turns.nowUs();
      this.#message(bytes[at]!, bytes.subarray(at + MESSAGE_HEAD_BYTES, end));
      share.use(turns.nowUs() - fromUs);
      at = end;
      if (this.#busy) break;
    }
    if (!this.#over && at < bytes.length) this.#hold(bytes.subarray(at));
  }

  #message(flag: number, bytes: Uint8Array): void {
    if (flag === 0) {
      this.#deliver(bytes, false);
      return;
    }
    if (flag !== 1 || this.encoding === null) {
      this.#refuse("INTERNAL", "Compressed message without a known grpc-encoding");
      return;
    }
    const plain = this.shared.unpacking.unpacked(bytes, this.encoding, () => this.#over);
    if (!(plain instanceof Promise)) this.#unpacked(plain, false);
    else this.#wait(this.#countWhile(bytes.length, plain).then((message) => this.#unpacked(message, true)));
  }

  /** Delivers a decompressed message, or refuses it. `counted`: true if its bytes are counted as held. */
  #unpacked(plain: Buffer | UnpackFailure, counted: boolean): void | Promise<void> {
    const { messageBytes, held } = this.shared;
    if (plain === "large") this.#tooLarge(messageBytes + 1);
    else if (plain === "held") this.receiver.refuse(tooMuchHeld(held));
    else if (plain === "broken") this.#refuse("INTERNAL", "Failed to decompress message");
    else return this.#deliver(plain, counted);
  }

  /** Delivers a message. */
  #deliver(bytes: Uint8Array, counted: boolean): void | Promise<void> {
    const { held } = this.shared;
    if (counted) held.bytes -= bytes.length;
    if (this.#over) return;
    try {
      const reading = this.receiver.deliver(unpinned(bytes));
      if (!(reading instanceof Promise)) return;
      const read = this.#countWhile(bytes.length, reading);
      if (this.#busy) return read;
      this.#wait(read);
    } catch (error) {
      this.receiver.fail(error);
    }
  }

  /** Counts bytes as held until the work has ended. */
  async #countWhile<T>(bytes: number, work: Promise<T>): Promise<T> {
    const { held } = this.shared;
    held.bytes += bytes;
    try {
      return await work;
    } finally {
      held.bytes -= bytes;
    }
  }

  /** Makes further messages wait until the work has ended. */
  #wait(work: Promise<void>): void {
    this.#busy = true;
    this.receiver.waits(true);
    work.then(this.#continue, (why) => {
      this.receiver.fail(why);
      this.#continue();
    });
  }

  readonly #continue = (): void => {
    this.#busy = false;
    if (this.#over) return;
    this.#readHeld();
    if (this.#busy || this.#over) return;
    this.receiver.waits(false);
    this.#reportEnd();
  };

  #tooLarge(bytes: number): void {
    this.#refuse("RESOURCE_EXHAUSTED", `Received message larger than max (${bytes} vs. ${this.shared.messageBytes})`);
  }

  #refuse(code: GrpcStatus["code"], message: string): void {
    this.receiver.refuse({ code, message });
  }
}

/** The time spent on delivering messages in this turn of the event loop, over all calls of the server. */
export class TurnShare {
  #usedUs = 0;

  constructor(private readonly turns: EventLoopTurns) {}

  get isUsed(): boolean {
    return this.#usedUs >= TURN_US && this.turns.after !== undefined;
  }

  use(us: number): void {
    const isNew = this.#usedUs < NOTICED_US;
    this.#usedUs += us;
    if (isNew && this.#usedUs >= NOTICED_US) this.turns.after?.(0, this.#renew);
  }

  readonly #renew = (): void => {
    this.#usedUs = 0;
  };
}

/** Returns the length from the head of a message at `at`. */
const lengthAt = (bytes: Uint8Array, at: number): number => readUint32(bytes, at + 1);
