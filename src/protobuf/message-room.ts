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

/** Memory of what is made of one field, in bytes, about. */
const FIELD_BYTES = 128;
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
  /** Bytes that count in those that are held. */
  #counted = 0;
  /** Whether something that was read is a part of the message's own memory. */
  hasViews = false;

  constructor(fieldsMost: number, held: HeldMessages) {
    this.#fieldsMost = fieldsMost;
    this.#held = held;
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

  /** The message is no longer needed: counts from the beginning. */
  free(): void {
    this.#held.bytes -= this.#counted;
    this.#counted = 0;
    this.#fields = 0;
    this.#listBytes = 0;
    this.#listWireBytes = 0;
  }

  #add(fields: number): void {
    this.#fields += fields;
    this.#count(fields * FIELD_BYTES);
    const beyond = Math.max(0, this.#listBytes - LIST_GROWTH * this.#listWireBytes);
    if (this.#fields + beyond / LIST_BYTES_OF_A_FIELD <= this.#fieldsMost) return;
    throw new MessageRefused({
      code: "RESOURCE_EXHAUSTED",
      message: `Received message with more fields than max (${this.#fieldsMost}); --grpc-max-message-fields allows more`,
    });
  }

  #count(bytes: number): void {
    this.#counted += bytes;
    this.#held.bytes += bytes;
    if (this.#held.bytes > this.#held.most) throw new MessageRefused(tooMuchHeld(this.#held));
  }
}
