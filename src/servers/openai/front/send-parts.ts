/** Sends long answers part by part, as fast as the client reads, with a turn of the event loop before each part. */

import { type EventLoopTurns, turn } from "../../../base/pieces.ts";
import type { PartSink } from "../../../wire/http/sink.ts";

/** Waits for a client that does not keep up. */
export class DrainGate {
  /** True if the client has left. */
  gone = false;
  #open: (() => void) | null = null;

  /** Settles when the client takes more, or leaves. */
  opens(): Promise<void> {
    return new Promise((open) => {
      this.#open = open;
    });
  }

  onDrain(): void {
    this.#open?.();
  }

  onGone(): void {
    this.gone = true;
    this.#open?.();
  }
}

/** Approximate bytes of garbage that sending a part makes, in addition to the part. */
const TURN_BYTES = 4096;

/** Sends parts until the client leaves. `areShared`: other answers need the parts too, so they do not become garbage. */
export async function sendParts(
  parts: Iterable<Uint8Array>,
  sink: PartSink,
  gate: DrainGate,
  turns: EventLoopTurns,
  areShared = false,
): Promise<void> {
  for (const part of parts) {
    // Take a turn also before the first part, so that a hundred simultaneous answers take a turn each.
    await turn(turns);
    if (sink.full) await gate.opens();
    if (gate.gone) return;
    sink.write(part);
    turns.consumed?.(areShared ? TURN_BYTES : part.length);
  }
}

/** Characters of text in a part. */
const PART_CHARACTERS = 65_536;

/** An answer of known length. Its parts may be made while it is sent. */
export interface AnswerParts {
  readonly bytes: number;
  /** The parts in order. They are iterated only once. */
  readonly parts: Iterable<Uint8Array>;
  /** True if other answers need the same parts, so that they do not become garbage after this one. */
  readonly areShared: boolean;
}

/** Collects a text piece by piece, and turns it into parts of 64 KiB or more. */
export class JsonParts implements AnswerParts {
  bytes = 0;
  readonly parts: Uint8Array[] = [];
  #text = "";

  constructor(readonly areShared = false) {}

  /** Returns the parts of a text that many clients ask for. */
  static of(text: string): JsonParts {
    const all = new JsonParts(true);
    for (const part of partsOf(text)) all.#push(part);
    return all;
  }

  add(text: string): void {
    this.#text += text;
    if (this.#text.length >= PART_CHARACTERS) this.#close();
  }

  /** Turns the rest of the text into a part. */
  end(): this {
    this.#close();
    return this;
  }

  #close(): void {
    const part = Buffer.from(this.#text);
    this.#text = "";
    if (part.length > 0) this.#push(part);
  }

  #push(part: Uint8Array): void {
    this.bytes += part.length;
    this.parts.push(part);
  }
}

/** Returns the bytes of a long answer in parts, without copying them. Their memory is freed after the last part. */
export function partsOfBytes(bytes: Uint8Array<ArrayBuffer>): AnswerParts {
  return { bytes: bytes.length, parts: freedParts(bytes), areShared: false };
}

function* freedParts(bytes: Uint8Array<ArrayBuffer>): Generator<Uint8Array, void> {
  try {
    for (let at = 0; at < bytes.length; at += PART_CHARACTERS) yield bytes.subarray(at, at + PART_CHARACTERS);
  } finally {
    bytes.buffer.transfer(0);
  }
}

/** Yields the bytes of a long text in parts. */
export function* partsOf(text: string): Generator<Uint8Array, void> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + PART_CHARACTERS);
    // Do not split a pair of surrogates.
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end++;
    yield Buffer.from(text.slice(at, end));
    at = end;
  }
}
