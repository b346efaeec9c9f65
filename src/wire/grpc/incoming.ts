/**
 * Reads the messages of one call from the bytes of its stream: each stands after a flag and its length. Hands them on one
 * after the other; while one is unpacked or read, the next bytes wait and the client is not let send more.
 */

import { type EventLoopTurns, turn } from "../../base/pieces.ts";
import { readUint32 } from "../http2/frames.ts";
import type { GrpcEncoding } from "./compression.ts";
import { GatheredBytes, unpinned } from "./gathered-bytes.ts";
import { type HeldMessages, tooMuchHeld } from "./held-messages.ts";
import type { GrpcStatus } from "./status.ts";
import type { NotUnpacked, Unpacking } from "./unpacking.ts";

/** Before each message: whether it is packed, and its length. A message is made with this much room before it. */
export const MESSAGE_HEAD_BYTES = 5;

/** Messages are handed on for this long before the event loop turns. */
const PIECE_US = 1000;
/** Less time is not worth a timer, and counts in the next turns, too. */
const NOTICED_US = 50;

/** What reading shares between the calls of a server. */
export interface IncomingShared {
  /** Largest message, in bytes, packed or not. */
  readonly messageBytes: number;
  readonly held: HeldMessages;
  readonly unpacking: Unpacking;
  readonly turns: EventLoopTurns;
  readonly share: TurnShare;
}

export interface IncomingReceiver {
  /** The next message, or the end, follows when a promise has settled. */
  deliver(bytes: Uint8Array): void | Promise<void>;
  /** The client has sent all, and all of it was delivered. */
  allDelivered(): void;
  /** The call is to end with this status. */
  refuse(status: GrpcStatus): void;
  /** Something threw that nobody expects. */
  fail(why: unknown): void;
  /** Whether the next messages wait for one that is being read. */
  waits(isWaiting: boolean): void;
}

export class IncomingMessages {
  readonly #shared: IncomingShared;
  readonly #receiver: IncomingReceiver;
  /** How packed messages of the call are packed. Null: they are not. */
  readonly #encoding: GrpcEncoding | null;
  readonly #gathered = new GatheredBytes();
  #busy = false;
  #ended = false;
  #over = false;

  constructor(shared: IncomingShared, encoding: GrpcEncoding | null, receiver: IncomingReceiver) {
    this.#shared = shared;
    this.#encoding = encoding;
    this.#receiver = receiver;
  }

  data(bytes: Uint8Array): void {
    if (this.#over) return;
    if (!this.#busy && this.#gathered.bytes === 0) {
      this.#read(bytes);
      return;
    }
    this.#hold(bytes);
    if (!this.#busy) this.#readHeld();
  }

  /** The client has sent all. */
  end(): void {
    this.#ended = true;
    if (!this.#busy) this.#tellEnd();
  }

  /** The call is over: what is held is dropped. */
  close(): void {
    this.#over = true;
    this.#shared.held.bytes -= this.#gathered.bytes;
    this.#gathered.free();
  }

  #tellEnd(): void {
    if (this.#over || !this.#ended) return;
    if (this.#gathered.bytes > 0) {
      this.#refuse("INTERNAL", "Incomplete message");
      return;
    }
    try {
      this.#receiver.allDelivered();
    } catch (error) {
      this.#receiver.fail(error);
    }
  }

  #hold(bytes: Uint8Array): void {
    const { held } = this.#shared;
    const head = this.#gathered.first ?? bytes;
    const expected = head.length < MESSAGE_HEAD_BYTES ? 0 : MESSAGE_HEAD_BYTES + lengthAt(head, 0);
    if (this.#gathered.add(bytes, expected)) this.#shared.turns.consumed?.(bytes.length);
    held.bytes += bytes.length;
    if (held.bytes > held.most) this.#receiver.refuse(tooMuchHeld(held));
  }

  /** Reads what is held, if there is a whole message in it. Refuses one that is too large. */
  #readHeld(): void {
    const gathered = this.#gathered;
    if (this.#over || gathered.bytes < MESSAGE_HEAD_BYTES) return;
    gathered.joinFirst(MESSAGE_HEAD_BYTES);
    const length = lengthAt(gathered.first!, 0);
    if (length > this.#shared.messageBytes) this.#tooLarge(length);
    else if (gathered.bytes >= MESSAGE_HEAD_BYTES + length) {
      this.#shared.held.bytes -= gathered.bytes;
      this.#read(gathered.taken());
    }
  }

  /** Messages, and the beginning of one. */
  #read(bytes: Uint8Array): void {
    const { turns, share, messageBytes } = this.#shared;
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
      this.#give(bytes, false);
      return;
    }
    if (flag !== 1 || this.#encoding === null) {
      this.#refuse("INTERNAL", "Compressed message without a known grpc-encoding");
      return;
    }
    const plain = this.#shared.unpacking.unpacked(bytes, this.#encoding, () => this.#over);
    if (!(plain instanceof Promise)) this.#unpacked(plain, false);
    else this.#wait(this.#while(bytes.length, plain).then((made) => this.#unpacked(made, true)));
  }

  /** `counted`: its bytes are among those that are held. */
  #unpacked(plain: Buffer | NotUnpacked, counted: boolean): void | Promise<void> {
    const { messageBytes, held } = this.#shared;
    if (plain === "large") this.#tooLarge(messageBytes + 1);
    else if (plain === "held") this.#receiver.refuse(tooMuchHeld(held));
    else if (plain === "broken") this.#refuse("INTERNAL", "Failed to decompress message");
    else return this.#give(plain, counted);
  }

  /** Hands a message on. */
  #give(bytes: Uint8Array, counted: boolean): void | Promise<void> {
    const { held } = this.#shared;
    if (counted) held.bytes -= bytes.length;
    if (this.#over) return;
    try {
      const reading = this.#receiver.deliver(unpinned(bytes));
      if (!(reading instanceof Promise)) return;
      const read = this.#while(bytes.length, reading);
      if (this.#busy) return read;
      this.#wait(read);
    } catch (error) {
      this.#receiver.fail(error);
    }
  }

  /** So many bytes are held until then. */
  async #while<T>(bytes: number, work: Promise<T>): Promise<T> {
    const { held } = this.#shared;
    held.bytes += bytes;
    try {
      return await work;
    } finally {
      held.bytes -= bytes;
    }
  }

  /** Goes on when the work has settled. */
  #wait(work: Promise<void>): void {
    this.#busy = true;
    this.#receiver.waits(true);
    work.then(this.#goOn, (why) => {
      this.#receiver.fail(why);
      this.#goOn();
    });
  }

  readonly #goOn = (): void => {
    this.#busy = false;
    if (this.#over) return;
    this.#readHeld();
    if (this.#busy || this.#over) return;
    this.#receiver.waits(false);
    this.#tellEnd();
  };

  #tooLarge(bytes: number): void {
    this.#refuse("RESOURCE_EXHAUSTED", `Received message larger than max (${bytes} vs. ${this.#shared.messageBytes})`);
  }

  #refuse(code: GrpcStatus["code"], message: string): void {
    this.#receiver.refuse({ code, message });
  }
}

/** The time that handing on messages has taken in this turn of the event loop, in all calls of the server. */
export class TurnShare {
  readonly #turns: EventLoopTurns;
  #usedUs = 0;

  constructor(turns: EventLoopTurns) {
    this.#turns = turns;
  }

  get isUsed(): boolean {
    return this.#usedUs >= PIECE_US && this.#turns.after !== undefined;
  }

  use(us: number): void {
    const isNew = this.#usedUs < NOTICED_US;
    this.#usedUs += us;
    if (isNew && this.#usedUs >= NOTICED_US) this.#turns.after?.(0, this.#renew);
  }

  readonly #renew = (): void => {
    this.#usedUs = 0;
  };
}

/** The length that stands in the head of a message. */
const lengthAt = (bytes: Uint8Array, at: number): number => readUint32(bytes, at + 1);
