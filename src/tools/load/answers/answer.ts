/**
 * Collects one answer: the times of the chunks with generated output, token counts, and the reason if it failed. A reader
 * (`readers.ts`) interprets the events of each API. Unexpected JSON anywhere in an answer makes the request fail with a
 * reason; it never makes the run fail.
 */

import { ByteBudget } from "../../../base/growing-bytes.ts";
import { jsonObjectIn, type LooseObject, shownJson } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import type { FailureClass, RequestRecord, Turn } from "../requests/types.ts";
import { errorIn } from "./error-forms.ts";
import { EVENT_LIMIT, type EventReceiver } from "./event-stream.ts";
import { EventPattern } from "./pattern.ts";
import type { AnswerReader, Failure } from "./reader.ts";

/** A request and when it was sent. */
export interface SentRequest {
  readonly order: {
    readonly index: number;
    readonly requestId: string;
    readonly intendedUs: number;
    readonly turn: Turn;
    readonly disturb: { readonly kind: NonNullable<RequestRecord["disturbed"]> } | null;
  };
  readonly originUs: number;
  readonly sendUs: number;
  readonly endUs: number;
  readonly status: number;
  readonly retries: number;
}

/**
 * Maximum number of bytes that all answers in progress may hold together: of unfinished events, of answers that are one body,
 * and of errors.
 */
export const ANSWERS_HELD_MOST = 1 << 26;
/** Maximum number of bytes for texts and chunk times, of all answers in progress together and of one answer. */
const OUTPUTS_MOST = 1 << 28;
export const OUTPUT_MOST = 1 << 24;
/**
 * Maximum number of lists and objects, and of commas, in an answer's JSON. Parsed, they take many times the memory of their
 * bytes.
 */
const JSON_PARTS_MOST = { lists: 500_000, commas: 3_000_000 };
/** Shorter texts are parsed without counting. */
const COUNTED_LEAST = 1 << 18;
/** Bytes per chunk: its time and its number of tokens. */
const CHUNK_BYTES = 12;
/** Bytes that a piece of text takes in addition to its characters. */
const PIECE_BYTES = 16;
/** Largest number of tokens that is believed. With a larger one, the chunks of the answer are counted instead. */
const TOKENS_MOST = 2 ** 31 - 1;

/**
 * State that all answers of a run share: memory budgets and event patterns. Patterns are tried in order; the last match moves
 * to the front.
 */
export class Patterns {
  readonly held = new ByteBudget(ANSWERS_HELD_MOST);
  readonly heldOutputs = new ByteBudget(OUTPUTS_MOST);
  /** Number of events with output, over all answers of the run. */
  outputs = 0;
  readonly #known: EventPattern[] = [];
  #learned = 0;

  match(bytes: Uint8Array, at: number, end: number): [EventPattern, number] | null {
    for (let i = 0; i < this.#known.length; i++) {
      const pattern = this.#known[i]!;
      const behind = pattern.match(bytes, at, end);
      if (behind < 0) continue;
      if (i > 0) {
        this.#known[i] = this.#known[0]!;
        this.#known[0] = pattern;
      }
      this.#found[0] = pattern;
      this.#found[1] = behind;
      return this.#found;
    }
    return null;
  }

  /**
   * Learns a pattern from an event whose JSON has this `type` ("" if none). If events never match, it learns less and less
   * often.
   */
  learn(data: Uint8Array, type: string): void {
    const tries = ++this.#learned;
    if (tries > FREE_LESSONS && (tries & (tries - 1)) !== 0) return;
    const pattern = EventPattern.of(data, type);
    if (pattern === null) return;
    this.#known.unshift(pattern);
    this.#known.length = Math.min(this.#known.length, PATTERNS_MOST);
  }

  readonly #found: [EventPattern, number] = [null as unknown as EventPattern, 0];
}

const PATTERNS_MOST = 4;
const FREE_LESSONS = 32;
const MESSAGE_MOST = 300;
/** Maximum number of characters of an answer's id. Ids are kept until the end of the run. */
const ID_MOST = 256;

const decoder = new TextDecoder();

export class Answer implements EventReceiver {
  /** Number of chunks with output. Only so many elements of the arrays below are valid. */
  chunks = 0;
  chunkUs: Float64Array;
  chunkTokens: Int32Array;
  /** Token counts from `usage`. -1 if the server did not give them. */
  promptTokens = -1;
  outputTokens = -1;
  cachedTokens = 0;
  /** True after the last event of a stream: `[DONE]`, or the last event of this API. Later events are ignored. */
  done = false;
  /** True if the server said that the answer is complete: with the `finish_reason` of a choice, or this API's equivalent. */
  finished = false;
  /** Time of `finish`, in APIs whose answers end with an event without output. NaN if it was not called. */
  finishedUs = Number.NaN;
  failure: Failure | null = null;
  /** The server's id of the answer, in APIs whose servers do not return `X-Request-Id`. Null if unknown. */
  id: string | null = null;
  /** Generated text, if it is needed for the next turn of a conversation. */
  text: string;
  /** Arrival time of the bytes that are being read, in microseconds. */
  nowUs = 0;
  readonly #reader: AnswerReader;
  readonly #patterns: Patterns;
  readonly #keepText: boolean;
  #tokensSaid = 0;
  /** Bytes of text and times that this answer took from the shared budget. */
  #held = 0;

  /** `expected`: expected number of chunks, which sets the initial size of the arrays. */
  constructor(reader: AnswerReader, patterns: Patterns, expected: number, keepText: boolean) {
    this.#reader = reader;
    this.#patterns = patterns;
    this.#keepText = keepText;
    this.text = "";
    const room = Math.min(4096, Math.max(8, expected + 2));
    this.chunkUs = new Float64Array(room);
    this.chunkTokens = new Int32Array(room);
  }

  match(bytes: Uint8Array, at: number, end: number): number {
    if (this.#keepText || this.done) return -1;
    const match = this.#patterns.match(bytes, at, end);
    if (match === null) return -1;
    this.#chunk(match[0].tokens);
    return match[1];
  }

  event(bytes: Uint8Array, from: number, to: number, isError: boolean): void {
    // An empty event is ignored (WHATWG HTML, 9.2.6), and so is any event after the end.
    if (this.done || from === to) return;
    const data = bytes.subarray(from, to);
    if (to - from === 6 && decoder.decode(data) === "[DONE]") {
      this.done = this.#reader.endsWithDone;
      return;
    }
    const text = decoder.decode(data);
    const value = answerIn(text);
    if (isError) {
      this.fail("error event", value === null ? quoted(text) : (errorIn(value) ?? shownJson(value)));
      return;
    }
    if (value === null) {
      this.fail("malformed", `an event that is ${noObject(text)}: ${quoted(text)}`);
      return;
    }
    const isPlain = this.#reader.event(value, this);
    if (isPlain && !this.#keepText) this.#patterns.learn(data, typeof value.type === "string" ? value.type : "");
  }

  tooLong(): void {
    this.fail("malformed", `an event that does not end: ${tooMuch(EVENT_LIMIT)}`);
  }

  /** True if no later bytes can make this a good answer. */
  get isMalformed(): boolean {
    return this.failure?.kind === "malformed";
  }

  /** Gives the memory of this answer back to the shared budget. Called when no more data comes. */
  release(): void {
    this.#patterns.heldOutputs.give(this.#held);
    this.#held = 0;
  }

  /** Reads an answer that is one body. */
  whole(text: string): void {
    const value = answerIn(text);
    if (value === null) this.fail("malformed", `an answer that is ${noObject(text)}: ${quoted(text)}`);
    else this.#reader.whole(value, text, this);
  }

  /** Returns true, and fails the answer, if an object is an error in any of the forms that servers use. */
  failsBy(value: LooseObject): boolean {
    const error = errorIn(value);
    if (error !== null) this.fail("error event", error);
    return error !== null;
  }

  /** Records a chunk with output. `tokens`: number of tokens of the answer so far, or -1 if the server does not say. */
  output(text: string, tokens = -1): void {
    if (this.#keepText) this.#keep(text);
    this.#chunk(tokens);
  }

  /** Records token counts. A count of -1 is unknown and changes nothing. */
  count(prompt: number, output: number, cached: number): void {
    if (prompt >= 0) this.promptTokens = prompt;
    if (output >= 0) this.outputTokens = output;
    if (cached >= 0) this.cachedTokens = cached;
  }

  /** Records the server's id of the answer. Ignores an id that is longer than any real one. */
  name(id: unknown): void {
    if (this.id === null && typeof id === "string" && id.length <= ID_MOST) this.id = copied(id);
  }

  /** Records that the answer is complete, and the time. */
  finish(): void {
    this.finished = true;
    this.finishedUs = this.nowUs;
  }

  /** Returns why a stream that ended in order is not complete, or null if it is. */
  missingEnd(): Failure | null {
    if (this.chunks === 0) return { kind: "no token", message: "the answer ended before its first token" };
    return this.#reader.missingEnd(this);
  }

  /** Returns the record of the request. Its times count from `originUs`. */
  record(sent: SentRequest): RequestRecord {
    const { order, originUs, sendUs, endUs, status, retries } = sent;
    const { turn } = order;
    const count = this.chunks;
    const chunkUs = this.chunkUs.slice(0, count);
    for (let i = 0; i < count; i++) chunkUs[i]! -= originUs;
    return {
      index: order.index,
      requestId: order.requestId,
      intendedUs: order.intendedUs - originUs,
      sendUs: sendUs - originUs,
      firstUs: count > 0 ? chunkUs[0]! : Number.NaN,
      lastUs: count > 0 ? chunkUs[count - 1]! : this.failure === null ? this.finishedUs - originUs : Number.NaN,
      answerId: this.id,
      finishedUs: this.finishedUs - originUs,
      endUs: endUs - originUs,
      chunkUs,
      chunkTokens: this.chunkTokens.slice(0, count),
      inputTokens: this.promptTokens >= 0 ? this.promptTokens : (turn.inputTokens ?? 0),
      outputTokens: this.outputTokens >= 0 ? this.outputTokens : count,
      usage: this.outputTokens >= 0,
      wantedTokens: turn.outputTokens,
      cachedTokens: this.cachedTokens,
      status,
      retries,
      failure: this.failure,
      disturbed: order.disturb?.kind ?? null,
      done: this.done,
    };
  }

  /** Makes the request fail. Only the first reason is kept. */
  fail(kind: FailureClass, message: string): void {
    this.failure ??= { kind, message: copied(message.slice(0, MESSAGE_MOST)) };
  }

  #keep(text: string): void {
    if (this.#hold(2 * text.length + PIECE_BYTES)) this.text += text;
  }

  /** Takes bytes from the memory budgets. If they are exhausted, fails the answer and returns false. */
  #hold(bytes: number): boolean {
    if (this.#held + bytes > OUTPUT_MOST || !this.#patterns.heldOutputs.take(bytes)) {
      this.fail("malformed", `an answer that does not end: ${tooMuch(OUTPUT_MOST, OUTPUTS_MOST)}`);
      return false;
    }
    this.#held += bytes;
    return true;
  }

  /** Records a chunk. `tokens`: number of tokens of the answer so far, or -1 if the server does not say. */
  #chunk(tokens: number): void {
    if (this.chunks === this.chunkUs.length && !this.#grow()) return;
    let newTokens = 0;
    if (tokens >= 0) {
      newTokens = Math.max(0, tokens - this.#tokensSaid);
      this.#tokensSaid = Math.max(tokens, this.#tokensSaid);
      if (tokens > this.outputTokens) this.outputTokens = tokens;
    }
    this.#patterns.outputs++;
    this.chunkTokens[this.chunks] = newTokens;
    this.chunkUs[this.chunks++] = this.nowUs;
  }

  #grow(): boolean {
    if (!this.#hold(CHUNK_BYTES * this.chunks)) return false;
    const [us, tokens] = [new Float64Array(2 * this.chunks), new Int32Array(2 * this.chunks)];
    us.set(this.chunkUs);
    tokens.set(this.chunkTokens);
    this.chunkUs = us;
    this.chunkTokens = tokens;
    return true;
  }
}

/** Returns the value if it is a text, else "". */
export const looseText = (value: unknown): string => (typeof value === "string" ? value : "");

/** Returns the value if it is a plausible number of tokens, else -1. */
export const countIn = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= TOKENS_MOST ? (value as number) : -1;

/** Copies a text. A substring keeps the whole original in memory, and records stay until the end of the run. */
const copied = (text: string): string => Buffer.from(text, "utf16le").toString("utf16le");

/** Says that an answer is too large. `most`: limit of one answer in bytes; `sum`: limit of all answers together. */
export const tooMuch = (most: number, sum = ANSWERS_HELD_MOST): string =>
  `it has more than ${most / 2 ** 20} MiB, or all answers in progress have more than ${sum / 2 ** 20} MiB`;

/** Parses an answer. Null if it is not a JSON object, or has more parts than a real answer. */
function answerIn(text: string): LooseObject | null {
  return text.length >= COUNTED_LEAST && hasManyParts(text) ? null : jsonObjectIn(text);
}

const noObject = (text: string): string =>
  text.length < COUNTED_LEAST ? "not a JSON object" : "not a JSON object, or one with too many parts";

function hasManyParts(text: string): boolean {
  let [lists, commas] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 44) commas++;
    else if (code === 123 || code === 91) lists++;
  }
  return lists > JSON_PARTS_MOST.lists || commas > JSON_PARTS_MOST.commas;
}
