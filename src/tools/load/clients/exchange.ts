/** Follows one request from its first byte to the last byte of its answer. */

import { GrowingBytes } from "../../../base/growing-bytes.ts";
import { jsonObjectIn, looseObject, parsedJson } from "../../../base/json-object.ts";
import { Answer, type Patterns, tooMuch } from "../answers/answer.ts";
import { errorIn, messageOf } from "../answers/error-forms.ts";
import { EventStream } from "../answers/event-stream.ts";
import { READERS } from "../answers/readers.ts";
import type { LoadDialect } from "../requests/dialects.ts";
import { quoted } from "../requests/quoted.ts";
import type { FailureClass } from "../requests/types.ts";
import type { ResponseReceiver } from "./connections.ts";
import { ResponseParser, type ResponseSink } from "./http-response.ts";

/** Maximum number of bytes of an answer that is one body. */
export const WHOLE_LIMIT = 1 << 24;
/** Number of bytes kept of an error's text, and number after which its end is not awaited. */
const ERROR_KEPT = 1 << 14;
export const ERROR_LIMIT = 1 << 20;
const OPEN_BRACE = 0x7b;

const NO_HEADERS: ReadonlyMap<string, string> = new Map();

export interface ExchangeOptions {
  readonly dialect: LoadDialect;
  readonly stream: boolean;
  readonly patterns: Patterns;
  /** Expected number of chunks. */
  readonly expected: number;
  readonly keepText: boolean;
}

export class ClientExchange implements ResponseReceiver, ResponseSink {
  status = 0;
  sendUs = Number.NaN;
  endUs = Number.NaN;
  /** Body of an answer with another status than 200. */
  errorText = "";
  /** Headers of the answer. Empty if no head came. */
  headers: ReadonlyMap<string, string> = NO_HEADERS;
  readonly answer: Answer;
  readonly #parser: ResponseParser;
  readonly #options: ExchangeOptions;
  readonly #ended: (exchange: ClientExchange) => void;
  /** Reader of the event stream. Null if the body is kept whole. */
  #events: EventStream | null = null;
  readonly #whole: GrowingBytes;
  /** Number of bytes of the body, whether kept or not. */
  #bodyBytes = 0;
  /** True if the body of a stream begins like JSON. Servers and gateways report errors like this, even with status 200. */
  #isBareJson = false;
  #isOver = false;
  #isSettled = false;

  /** `ended` is called once, when the exchange is over and its connection is free. */
  constructor(options: ExchangeOptions, ended: (exchange: ClientExchange) => void) {
    this.#options = options;
    this.#ended = ended;
    this.#parser = new ResponseParser(this);
    this.#whole = new GrowingBytes(WHOLE_LIMIT, options.patterns.held);
    this.answer = new Answer(READERS[options.dialect], options.patterns, options.expected, options.keepText);
  }

  get over(): boolean {
    return this.#isOver;
  }

  get keepAlive(): boolean {
    return this.#parser.keepAlive;
  }

  get begun(): boolean {
    return this.#parser.begun;
  }

  sent(nowUs: number): void {
    this.sendUs = nowUs;
  }

  data(bytes: Uint8Array, nowUs: number): void {
    this.answer.nowUs = nowUs;
    try {
      this.#parser.push(bytes);
    } catch (failure) {
      this.#unreadable(failure);
    }
  }

  /** Makes the request fail if reading its answer throws. The run continues. */
  #unreadable(failure: unknown): void {
    this.stop("malformed", `it cannot be read: ${quoted(String(failure))}`, this.answer.nowUs);
  }

  lost(nowUs: number, why: string): void {
    this.answer.nowUs = nowUs;
    try {
      if (this.#parser.closed()) return;
    } catch (failure) {
      this.#unreadable(failure);
      return;
    }
    const where = this.#parser.begun ? "in the middle of the answer" : "before any answer";
    this.stop("mid-stream end", `${why} ${where}`, nowUs);
  }

  unreachable(nowUs: number, why: string): void {
    this.stop("connect", why, nowUs);
  }

  /** Ends the exchange with this reason. Does nothing if it has already ended. */
  stop(kind: FailureClass, message: string, nowUs: number): void {
    if (this.#isOver) return;
    this.answer.fail(kind, message);
    this.answer.nowUs = nowUs;
    this.#parser.stop();
    this.#over();
  }

  settle(): void {
    if (!this.#isOver || this.#isSettled) return;
    this.#isSettled = true;
    this.#ended(this);
  }

  head(status: number, headers: ReadonlyMap<string, string>): void {
    this.status = status;
    this.headers = headers;
    if (status !== 200) return;
    const type = headers.get("content-type")?.toLowerCase() ?? "";
    if (type.startsWith("text/html")) this.answer.fail("malformed", `an answer of type ${quoted(type)}`);
    else if (this.#options.stream) this.#events = new EventStream(this.answer, this.#options.patterns.held);
  }

  body(bytes: Uint8Array, from: number, to: number): void {
    if (this.#events !== null) {
      if (this.#bodyBytes === 0) this.#isBareJson = bytes[from] === OPEN_BRACE;
      this.#bodyBytes += to - from;
      if (this.#isBareJson) this.#keepError(bytes, from, to);
      this.#events.push(bytes, from, to);
      // Stop reading, because no later bytes can make it a good answer, and the stream may be endless.
      if (this.answer.isMalformed) this.#leave();
      return;
    }
    this.#bodyBytes += to - from;
    if (this.status !== 200) {
      this.#keepError(bytes, from, to);
      if (this.#bodyBytes > ERROR_LIMIT) {
        this.#refused(this.#text());
        this.#leave();
      }
    } else if (!this.#whole.append(bytes, from, to)) {
      this.answer.fail("malformed", tooMuch(WHOLE_LIMIT));
      this.#leave();
    }
  }

  end(): void {
    if (this.#events !== null) this.#streamEnded(this.#events);
    else if (this.status === 200) this.answer.whole(this.#text());
    else this.#refused(this.#text());
    this.#over();
  }

  broken(why: string): void {
    this.answer.fail("malformed", why);
    this.#over();
  }

  #keepError(bytes: Uint8Array, from: number, to: number): void {
    this.#whole.append(bytes, from, Math.min(to, from + ERROR_KEPT - this.#whole.length));
  }

  #text(): string {
    return this.#whole.bytes().toString("utf8");
  }

  /** Ends the exchange although the answer continues. Its connection is closed. */
  #leave(): void {
    this.#parser.stop();
    this.#over();
  }

  #streamEnded(events: EventStream): void {
    events.end();
    const { answer } = this;
    const error = this.#isBareJson && answer.chunks === 0 ? errorIn(jsonObjectIn(this.#text()) ?? {}) : null;
    const missing = error === null ? answer.missingEnd() : null;
    if (error !== null) answer.fail("error event", error);
    else if (missing !== null) answer.fail(missing.kind, missing.message);
  }

  #refused(text: string): void {
    this.errorText = text;
    const retryAfter = this.headers.get("retry-after");
    const after = retryAfter === undefined ? "" : ` (Retry-After: ${quoted(retryAfter)})`;
    this.answer.fail("status", `HTTP ${this.status}${after}: ${errorText(text)}`);
  }

  #over(): void {
    this.#isOver = true;
    this.#events?.stop();
    this.#whole.release();
    this.answer.release();
    this.endUs = this.answer.nowUs;
  }
}

/** Returns the message in an error's JSON, or the beginning of its text. */
function errorText(text: string): string {
  const value = parsedJson(text);
  if (value === undefined) return quoted(text) || "no text";
  const { error, message, detail } = looseObject(value) ?? {};
  return quoted(messageOf(error ?? message ?? detail ?? value));
}
