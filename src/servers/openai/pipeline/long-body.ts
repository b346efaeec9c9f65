/**
 * How is an answer of megabytes made without holding up the streams? Its long texts are made part by part when their turn
 * comes; where they stand in the body is marked. What fits is kept until it is sent; of a longer answer the first making
 * tells the length alone, which stands in the head, and the second one is sent as fast as the client takes it.
 */
import type { Pieces } from "../../../base/pieces.ts";
import type { AnswerParts } from "../front/send-parts.ts";

/** Stands for a text in a body, with its number: JSON has no such character. */
const MARK = "\0";
const MARKS = new RegExp(`${MARK}(\\d+)${MARK}`);

/** Makes a text anew each time. Undefined: there is none, which is null. */
type Making = () => Iterable<string> | undefined;

/** Candidates of log probabilities that are made in less than a millisecond, about. */
export const SHORT_CANDIDATES = 1000;

/** The texts of one body that may be made part by part, in their order in it. */
export class LongTexts {
  readonly makings: Making[] = [];
  #candidates = 0;

  /** What stands in the body for the text of so many candidates. */
  text(candidates: number, make: Making): string {
    this.#candidates += candidates;
    this.makings.push(make);
    return `${MARK}${this.makings.length - 1}${MARK}`;
  }

  /** All of the body, or what makes it. */
  in(body: string): string | LongBody {
    if (this.makings.length === 0) return body;
    const long = new LongBody(body, this);
    return this.#candidates > SHORT_CANDIDATES ? long : long.toString();
  }

  /** All of the body, in parts. */
  partsOf(body: string): Generator<string, void> {
    return new LongBody(body, this).texts();
  }
}

/** Most bytes kept of one answer, and of all that wait to be sent. */
const KEPT_MOST_BYTES = 16 * 2 ** 20;
const KEPT_BY_ALL_MOST_BYTES = 64 * 2 ** 20;
/** Parts are put together up to about so many characters. */
const PART_CHARACTERS = 65_536;
let keptByAll = 0;

export class LongBody {
  bytes = 0;
  /** What stands between the marks, and the numbers of those, in turns. */
  readonly #frame: readonly string[];
  readonly #makings: readonly Making[];
  /** UTF-8 of all of it; null: it is made again to be sent. */
  #kept: Buffer[] | null = [];
  #keptBytes = 0;

  constructor(body: string, { makings }: LongTexts) {
    this.#frame = body.split(MARKS);
    this.#makings = makings;
  }

  /** All of it, at once. */
  toString(): string {
    let text = "";
    for (const part of this.texts()) text += part;
    return text;
  }

  /** Makes it once, so that `bytes` is known; `consumed` is told of what was made. */
  *measure(consumed: (bytes: number) => void): Pieces<void> {
    for (const text of this.texts()) {
      consumed(text.length);
      if (this.#kept === null) this.bytes += Buffer.byteLength(text);
      else this.#keep(Buffer.from(text));
      yield;
    }
  }

  /** Bytes of the whole, once, after `measure`. */
  *parts(): Generator<Uint8Array, void> {
    const kept = this.#kept;
    if (kept !== null) {
      yield* kept;
      return;
    }
    for (const text of this.texts()) yield Buffer.from(text);
  }

  /** Bytes of the whole in parts, once, after `measure`. Their memory is free when they were sent; then calls `sent`. */
  answer(sent = () => {}): AnswerParts {
    return { bytes: this.bytes, parts: this.#dropped(sent), areShared: false };
  }

  *#dropped(sent: () => void): Generator<Uint8Array, void> {
    try {
      yield* this.parts();
    } finally {
      this.drop();
      sent();
    }
  }

  /** Sent, or never to be. */
  drop(): void {
    keptByAll -= this.#keptBytes;
    this.#keptBytes = 0;
    this.#kept = null;
  }

  #keep(part: Buffer): void {
    this.bytes += part.length;
    if (this.bytes > KEPT_MOST_BYTES || keptByAll + part.length > KEPT_BY_ALL_MOST_BYTES) {
      this.drop();
      return;
    }
    this.#kept!.push(part);
    this.#keptBytes += part.length;
    keptByAll += part.length;
  }

  /** The texts between the marks and those that the marks stand for, in parts that are neither long nor very short. */
  *texts(): Generator<string, void> {
    let text = "";
    for (const [i, item] of this.#frame.entries()) {
      if (i % 2 === 0) text += item;
      for (const part of i % 2 === 0 ? [] : (this.#makings[Number(item)]!() ?? NONE)) {
        text += part;
        // Without text: time has passed nevertheless.
        if (part !== "" && text.length < PART_CHARACTERS) continue;
        yield text;
        text = "";
      }
    }
    yield text;
  }
}

const NONE = ["null"];
