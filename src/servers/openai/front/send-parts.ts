/** How does an answer of megabytes reach its client? Part by part, as it is taken, with turns of the event loop between. */

import { type EventLoopTurns, turn } from "../../../base/pieces.ts";
import type { PartSink } from "../../../wire/http/sink.ts";

/** Waits for a client that does not keep up. */
export class Gate {
  gone = false;
  #open: (() => void) | null = null;

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

/** What sending a part leaves besides the part, about. */
const TURN_BYTES = 4096;

/** `areShared`: the parts are no garbage when they were sent; others are sent them, too. */
export async function sendParts(
  parts: Iterable<Uint8Array>,
  sink: PartSink,
  gate: Gate,
  turns: EventLoopTurns,
  areShared = false,
): Promise<void> {
  for (const part of parts) {
    // The first one too: a hundred that ask at once are answered a turn each.
    await turn(turns);
    if (sink.full) await gate.opens();
    if (gate.gone) return;
    sink.write(part);
    turns.consumed?.(areShared ? TURN_BYTES : part.length);
  }
}

/** Characters that are made bytes at a time. */
const PART_CHARACTERS = 65_536;

/** An answer of a known length in parts, which may be made as they are sent. */
export interface AnswerParts {
  readonly bytes: number;
  /** Gone through once, from its beginning. */
  readonly parts: Iterable<Uint8Array>;
  /** True if the parts are sent to others, too, so that they are no garbage when they were sent. */
  readonly areShared: boolean;
}

/** A text that is put together bit by bit, as bytes in parts that are neither long nor very short. */
export class JsonParts implements AnswerParts {
  bytes = 0;
  readonly parts: Uint8Array[] = [];
  readonly areShared: boolean;
  #text = "";

  constructor(areShared = false) {
    this.areShared = areShared;
  }

  /** All of a text that many ask for. */
  static of(text: string): JsonParts {
    const all = new JsonParts(true);
    for (const part of partsOf(text)) all.#push(part);
    return all;
  }

  add(text: string): void {
    this.#text += text;
    if (this.#text.length >= PART_CHARACTERS) this.#close();
  }

  /** With nothing more to come. */
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

/** Bytes of a long answer, in such parts, which are not copied. Their memory is freed when they were sent. */
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

/** Bytes of a long text, in such parts. */
export function* partsOf(text: string): Generator<Uint8Array, void> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + PART_CHARACTERS);
    // Not between the halves of a character.
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end++;
    yield Buffer.from(text.slice(at, end));
    at = end;
  }
}
