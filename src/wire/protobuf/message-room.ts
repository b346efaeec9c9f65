/**
 * Counts the memory of one message while it is decoded, and refuses the message at a limit. A field of two bytes may become an
 * object of hundreds, and a list of numbers may take eight times its encoded size.
 */
import { type HeldMessages, tooMuchHeld } from "../grpc/held-messages.ts";
import type { GrpcStatus } from "../grpc/status.ts";

/** Thrown when a message exceeds a limit. `status` goes to the client. */
export class MessageRefused extends Error {
  constructor(readonly status: GrpcStatus) {
    super(status.message);
  }
}

/**
 * Memory of objects in bytes, including their place in a list. At least the sizes measured for JavaScriptCore on 64-bit Linux.
 */
export const ObjectBytes = {
  Message: 64,
  /** A place in a list for an object that already exists. */
  Place: 16,
  /** A text without its characters, which take two bytes per byte of UTF-8 if one of them is beyond Latin-1. */
  Text: 40,
  Choice: 80,
  /** A view of bytes of the message. */
  View: 104,
  /** A list of numbers, without the memory of the numbers. */
  NumberList: 112,
  /** A map with one entry. `Entry`: each further entry. Both in addition to key and value. */
  Map: 288,
  Entry: 48,
  /** A `LateList`, or a `LateMap` with its list. */
  Late: 320,
} as const;

/** Limit of the objects of a message: this factor times its size, but at least so many bytes. */
const GROWTH = 8;
const OBJECT_BYTES_LEAST = 8192;
/** Limit from which short elements stay encoded: this factor times the size of the message, but at least so many bytes. */
const SHORT_GROWTH = 4;
const SHORT_OBJECT_BYTES_LEAST = 3072;
/** A text counts as one more field per this many bytes. */
const TEXT_BYTES_OF_A_FIELD = 1024;
/** Beyond `LIST_GROWTH` times its encoded size, the memory of a list of numbers counts as one field per this many bytes. */
const LIST_BYTES_OF_A_FIELD = 256;
const LIST_GROWTH = 4;

export class MessageRoom {
  #fields = 0;
  #listBytes = 0;
  #listWireBytes = 0;
  #bytes = 0;
  #objectBytes = 0;
  #objectBytesMost = Number.POSITIVE_INFINITY;
  #shortObjectBytesMost = Number.POSITIVE_INFINITY;
  /** True if parts of the message's own bytes are still needed. */
  hasViews = false;

  constructor(
    private readonly fieldsMost: number,
    private readonly held: HeldMessages,
  ) {}

  /** True if short elements must stay encoded. */
  get isFull(): boolean {
    return this.#objectBytes > this.#shortObjectBytesMost;
  }

  /** Sets the limits for a message of this size. */
  begin(messageBytes: number): void {
    this.#objectBytesMost = Math.max(OBJECT_BYTES_LEAST, GROWTH * messageBytes);
    this.#shortObjectBytesMost = Math.max(SHORT_OBJECT_BYTES_LEAST, SHORT_GROWTH * messageBytes);
  }

  /** Counts bytes of objects. Throws a `MessageRefused`. */
  take(bytes: number): void {
    this.#objectBytes += bytes;
    this.keep(bytes);
    if (this.#objectBytes <= this.#objectBytesMost) return;
    throw new MessageRefused({
      code: "RESOURCE_EXHAUSTED",
      message: `Received message whose fields take more memory than max (${this.#objectBytesMost} bytes, which is ${GROWTH} times its bytes, but at least ${OBJECT_BYTES_LEAST})`,
    });
  }

  /** Replaces the counted objects, which are garbage, by these. Throws a `MessageRefused`. */
  objectsAre(bytes: number): void {
    this.keep(-this.#objectBytes);
    this.#objectBytes = 0;
    this.take(bytes);
  }

  /** Counts an inner message or an entry of a map. Throws a `MessageRefused`. */
  field(): void {
    this.#add(1);
  }

  /** Counts a field of bytes, which stay in the message's own memory. Throws a `MessageRefused`. */
  view(): void {
    this.hasViews = true;
    this.#add(1);
  }

  /** Counts a text. `bytes`: its length in UTF-8. Throws a `MessageRefused`. */
  text(bytes: number): void {
    this.#add(1 + Math.floor(bytes / TEXT_BYTES_OF_A_FIELD));
  }

  /** Counts the memory of a list of numbers. `wireBytes`: its size in the message. Throws a `MessageRefused`. */
  list(bytes: number, wireBytes: number): void {
    this.#listBytes += bytes;
    this.#listWireBytes += wireBytes;
    this.#add(0);
    this.keep(bytes);
  }

  /** Counts bytes of memory until `free`. Throws a `MessageRefused`. */
  keep(bytes: number): void {
    this.#bytes += bytes;
    this.held.bytes += bytes;
    if (this.held.bytes > this.held.most) throw new MessageRefused(tooMuchHeld(this.held));
  }

  /** Resets all counts, because the message is no longer needed. Returns the number of bytes that became garbage. */
  free(): number {
    const bytes = this.#bytes;
    this.held.bytes -= bytes;
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
    if (this.#fields + beyond / LIST_BYTES_OF_A_FIELD <= this.fieldsMost) return;
    throw new MessageRefused({
      code: "RESOURCE_EXHAUSTED",
      message: `Received message with more fields than max (${this.fieldsMost}); --grpc-max-message-fields allows more`,
    });
  }
}
