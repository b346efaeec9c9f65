/**
 * Collects one answer: the times of the pieces with generated output, token counts, and the reason if it failed. A reader
 * (`readers.ts`) says what each event means in its API. Any JSON may stand in any place of an answer: it becomes a failed
 * request with a reason, never an error of ours.
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

/** Most bytes of unfinished events, answers in one piece and errors that the answers under way hold in sum. */
export const ANSWERS_HELD_MOST = 1 << 26;
/** Most bytes of texts and times of chunks that the answers under way hold in sum, and that one of them holds. */
const OUTPUTS_MOST = 1 << 28;
export const OUTPUT_MOST = 1 << 24;
/** Most lists and objects, and most commas, of an answer's JSON: they take many times the memory of their bytes. */
const JSON_PARTS_MOST = { lists: 500_000, commas: 3_000_000 };
/** A shorter text is not counted. */
const COUNTED_LEAST = 1 << 18;
/** A chunk's time and its number of tokens. */
const CHUNK_BYTES = 12;
/** What a piece of text takes beside its characters. */
const PIECE_BYTES = 16;
/** A larger number of tokens is not believed: the chunks of an answer are counted instead. */
const TOKENS_MOST = 2 ** 31 - 1;

/** What the answers of one run share. Patterns are tried in order; the last that matched stands first. */
export class Patterns {
  readonly held = new ByteBudget(ANSWERS_HELD_MOST);
  readonly heldOutputs = new ByteBudget(OUTPUTS_MOST);
  /** Events with output, of all answers of the run. */
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

  /** Learns from an event, whose JSON has this `type` ("" if none). Events that never match are learned from less and less often. */
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
/** Characters of an answer's id that are kept to the end of the run. */
const ID_MOST = 256;

const decoder = new TextDecoder();

export class Answer implements EventReceiver {
  /** Chunks with output; of the arrays below so many elements count. */
  chunks = 0;
  chunkUs: Float64Array;
  chunkTokens: Int32Array;
  /** Token counts from `usage`; -1: not said. */
  promptTokens = -1;
  outputTokens = -1;
  cachedTokens = 0;
  /** True if the last event of a stream came: `[DONE]`, or the event of this API. Nothing counts after it. */
  done = false;
  /** True if the server said that the answer is complete: a `finish_reason` of any choice, or this API's form of it. */
  finished = false;
  /** When `finish` was called, by readers of APIs whose answers end by an event without output; NaN if it was not. */
  finishedUs = Number.NaN;
  failure: Failure | null = null;
  /** The server's own id of the answer, in an API whose servers do not take over `X-Request-Id`; null: not said. */
  id: string | null = null;
  /** What was generated, where it is wanted. */
  text: string;
  /** When the bytes that are being read came. */
  nowUs = 0;
  readonly #reader: AnswerReader;
  readonly #patterns: Patterns;
  readonly #keepText: boolean;
  #tokensSaid = 0;
  /** Bytes of text and times that count in what all answers hold. */
  #held = 0;

  /** `expected`: how many chunks may come, for the first size of the arrays. */
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
    const found = this.#patterns.match(bytes, at, end);
    if (found === null) return -1;
    this.#chunk(found[0].tokens);
    return found[1];
  }

  event(bytes: Uint8Array, from: number, to: number, isError: boolean): void {
    // An empty event is none (WHATWG HTML, 9.2.6), and nothing counts behind the end.
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

  /** True if nothing that follows can make this a good answer. */
  get isMalformed(): boolean {
    return this.failure?.kind === "malformed";
  }

  /** Nothing more comes: what was held counts no longer. */
  release(): void {
    this.#patterns.heldOutputs.give(this.#held);
    this.#held = 0;
  }

  /** Takes an answer in one piece. */
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

  /** Counts a piece of output. `tokens`: those of the answer so far; -1: the server does not say. */
  output(text: string, tokens = -1): void {
    if (this.#keepText) this.#keep(text);
    this.#chunk(tokens);
  }

  /** Takes token counts in; -1: the server does not say, and the count stays as it is. */
  count(prompt: number, output: number, cached: number): void {
    if (prompt >= 0) this.promptTokens = prompt;
    if (output >= 0) this.outputTokens = output;
    if (cached >= 0) this.cachedTokens = cached;
  }

  /** Takes the server's id of the answer; longer than any real one, it is ignored. */
  name(id: unknown): void {
    if (this.id === null && typeof id === "string" && id.length <= ID_MOST) this.id = copied(id);
  }

  /** Notes that the answer is complete, and when. */
  finish(): void {
    this.finished = true;
    this.finishedUs = this.nowUs;
  }

  /** Returns why a stream that ended in order is not complete, or null if it is. */
  missingEnd(): Failure | null {
    if (this.chunks === 0) return { kind: "no token", message: "the answer ended before its first token" };
    return this.#reader.missingEnd(this);
  }

  /** What came of the request; times count from `originUs`. */
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

  /** The first reason stands. */
  fail(kind: FailureClass, message: string): void {
    this.failure ??= { kind, message: copied(message.slice(0, MESSAGE_MOST)) };
  }

  #keep(text: string): void {
    if (this.#hold(2 * text.length + PIECE_BYTES)) this.text += text;
  }

  /** Counts bytes of this answer that will be held. Fails the answer, and returns false, if they are too many. */
  #hold(bytes: number): boolean {
    if (this.#held + bytes > OUTPUT_MOST || !this.#patterns.heldOutputs.take(bytes)) {
      this.fail("malformed", `an answer that does not end: ${tooMuch(OUTPUT_MOST, OUTPUTS_MOST)}`);
      return false;
    }
    this.#held += bytes;
    return true;
  }

  /** `tokens`: of the answer so far, or -1 if the server does not say. */
  #chunk(tokens: number): void {
    if (this.chunks === this.chunkUs.length && !this.#grow()) return;
    let carried = 0;
    if (tokens >= 0) {
      carried = Math.max(0, tokens - this.#tokensSaid);
      this.#tokensSaid = Math.max(tokens, this.#tokensSaid);
      if (tokens > this.outputTokens) this.outputTokens = tokens;
    }
    this.#patterns.outputs++;
    this.chunkTokens[this.chunks] = carried;
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

/** A text, or "" for any other value. */
export const looseText = (value: unknown): string => (typeof value === "string" ? value : "");

/** A number of tokens; -1 if the value is no such number. */
export const countIn = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= TOKENS_MOST ? (value as number) : -1;

/** A copy of a text: a part of one keeps the whole of it in memory, and records are kept to the end of the run. */
const copied = (text: string): string => Buffer.from(text, "utf16le").toString("utf16le");

/** `most`: bytes of one answer; `sum`: of all. */
export const tooMuch = (most: number, sum = ANSWERS_HELD_MOST): string =>
  `it has more than ${most / 2 ** 20} MiB, or all answers under way have more than ${sum / 2 ** 20} MiB`;

/** Null: the text is no JSON, no object, or of more parts than an answer has. */
function answerIn(text: string): LooseObject | null {
  return text.length >= COUNTED_LEAST && hasManyParts(text) ? null : jsonObjectIn(text);
}

const noObject = (text: string): string =>
  text.length < COUNTED_LEAST ? "no JSON object" : "no JSON object, or one of too many parts";

function hasManyParts(text: string): boolean {
  let [lists, commas] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 44) commas++;
    else if (code === 123 || code === 91) lists++;
  }
  return lists > JSON_PARTS_MOST.lists || commas > JSON_PARTS_MOST.commas;
}
