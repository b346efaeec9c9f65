/**
 * Counts what one message takes in memory while it is read, and refuses it at a limit. A field of two bytes may become an
 * object of hundreds, and a list of numbers may take eight times its bytes.
 */
import { type HeldMessages, tooMuchHeld } from "../grpc/held-messages.ts";
import type { GrpcStatus } from "../grpc/status.ts";

/** Why a message is not read. */
export class MessageRefused extends Error {
  readonly status: GrpcStatus;

  constructor(status: GrpcStatus) {
    super(status.message);
    this.status = status;
  }
}

/** Memory of an object, in bytes: at least what JavaScriptCore was measured to take on 64-bit Linux, with its place in a list. */
export const ObjectBytes = {
  Message: 64,
  /** A place in a list for an object that is counted already. */
  Place: 16,
  /** In addition to two for each byte of its UTF-8: a character takes two if one of the text is beyond Latin-1. */
  Text: 40,
  Choice: 80,
  /** A view of bytes of the message. */
  View: 104,
  /** In addition to the numbers. */
  NumberList: 112,
  /** A map of one entry, and each further entry, in addition to its key and its value. */
  Map: 288,
  Entry: 48,
  /** A `LateList`, or a `LateMap` with its list. */
  Late: 320,
} as const;

/** Objects of a message take at most so many times its bytes, or so many bytes if that is more. */
const GROWTH = 8;
const OBJECT_BYTES_LEAST = 8192;
/** Objects of short elements are made up to so many times the bytes of the message, or so many bytes if that is more. */
const SHORT_GROWTH = 4;
const SHORT_OBJECT_BYTES_LEAST = 3072;
/** A text counts as one more field for each so many bytes. */
const TEXT_BYTES_OF_A_FIELD = 1024;
/** A list of numbers counts as a field for each so many bytes of memory beyond `LIST_GROWTH` times its bytes in the message. */
const LIST_BYTES_OF_A_FIELD = 256;
const LIST_GROWTH = 4;

export class MessageRoom {
  readonly #fieldsMost: number;
  readonly #held: HeldMessages;
  #fields = 0;
  #listBytes = 0;
  #listWireBytes = 0;
  #bytes = 0;
  #objectBytes = 0;
  #objectBytesMost = Number.POSITIVE_INFINITY;
  #shortObjectBytesMost = Number.POSITIVE_INFINITY;
  /** True if a part of the message's own memory is still needed. */
  hasViews = false;

  constructor(fieldsMost: number, held: HeldMessages) {
    this.#fieldsMost = fieldsMost;
    this.#held = held;
  }

  /** True if no more objects of short elements are to be made. */
  get isFull(): boolean {
    return this.#objectBytes > this.#shortObjectBytesMost;
  }

  /** Limits the objects of a message of so many bytes. */
  begin(messageBytes: number): void {
    this.#objectBytesMost = Math.max(OBJECT_BYTES_LEAST, GROWTH * messageBytes);
    this.#shortObjectBytesMost = Math.max(SHORT_OBJECT_BYTES_LEAST, SHORT_GROWTH * messageBytes);
  }

  /** Counts bytes of objects. Throws a `MessageRefused`. */
  take(bytes: number): void {
    this.#objectBytes += bytes;
    this.#count(bytes);
    if (this.#objectBytes <= this.#objectBytesMost) return;
    throw new MessageRefused({
      code: "RESOURCE_EXHAUSTED",
      message: `Received message whose fields take more memory than max (${this.#objectBytesMost} bytes, which is ${GROWTH} times its bytes, but at least ${OBJECT_BYTES_LEAST})`,
    });
  }

  /** Counts these bytes of objects instead of the earlier ones, which are garbage. Throws a `MessageRefused`. */
  objectsAre(bytes: number): void {
    this.#count(-this.#objectBytes);
    this.#objectBytes = 0;
    this.take(bytes);
  }

  /** A message in the message, or an entry of a map. Throws a `MessageRefused`. */
  field(): void {
    this.#add(1);
  }

  /** Bytes that stay where they are in the message. Throws a `MessageRefused`. */
  view(): void {
    this.hasViews = true;
    this.#add(1);
  }

  /** `bytes`: of its UTF-8. Throws a `MessageRefused`. */
  text(bytes: number): void {
    this.#add(1 + Math.floor(bytes / TEXT_BYTES_OF_A_FIELD));
  }

  /** Memory that is to be taken for numbers of a list, for so many bytes of the message. Throws a `MessageRefused`. */
  list(bytes: number, wireBytes: number): void {
    this.#listBytes += bytes;
    this.#listWireBytes += wireBytes;
    this.#add(0);
    this.#count(bytes);
  }

  /** Counts so many bytes of a message's own memory, until `free`. Throws a `MessageRefused`. */
  keep(bytes: number): void {
    this.#count(bytes);
  }

  /** The message is no longer needed: counts from the beginning. Returns how many bytes are garbage now. */
  free(): number {
    const bytes = this.#bytes;
    this.#held.bytes -= bytes;
    this.#bytes = 0;
    this.#objectBytes = 0;
    this.#fields = 0;
    this.#listBytes = 0;
    this.#listWireBytes = 0;
    return bytes;
  }

  #add(fields: number): void {
    this.#fields += fields;
    const beyond = Math.max(0, this.#listBytes - LIST_GROWTH * this.#listWireBytes);
    if (this.#fields + beyond / LIST_BYTES_OF_A_FIELD <= this.#fieldsMost) return;
    throw new MessageRefused({
      code: "RESOURCE_EXHAUSTED",
      message: `Received message with more fields than max (${this.#fieldsMost}); --grpc-max-message-fields allows more`,
    });
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#held.bytes += bytes;
    if (this.#held.bytes > this.#held.most) throw new MessageRefused(tooMuchHeld(this.#held));
  }
}
