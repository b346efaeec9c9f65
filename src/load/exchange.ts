/** How did one request fare, from its first byte to the last byte of its answer? */
import { Answer, isTriton, type LoadDialect, messageOf, type Patterns, quoted } from "./answer.ts";
import type { ResponseReceiver } from "./connections.ts";
import { EventStream } from "./event-stream.ts";
import { ResponseParser, type ResponseSink } from "./http-response.ts";
import type { FailureClass } from "./types.ts";

/** Largest answer in one piece, or error text; bytes. */
const WHOLE_LIMIT = 1 << 26;
const ERROR_LIMIT = 1 << 14;

const NO_HEADERS: ReadonlyMap<string, string> = new Map();

export interface ExchangeOptions {
  readonly dialect: LoadDialect;
  readonly stream: boolean;
  readonly patterns: Patterns;
  /** How many chunks are expected. */
  readonly expected: number;
  readonly keepText: boolean;
}

export class ClientExchange implements ResponseReceiver, ResponseSink {
  status = 0;
  sendUs = Number.NaN;
  endUs = Number.NaN;
  /** The server's text beside a status that is no 200. */
  errorText = "";
  /** Headers of the answer; empty: no head came. */
  headers: ReadonlyMap<string, string> = NO_HEADERS;
  readonly answer: Answer;
  readonly #parser: ResponseParser;
  readonly #options: ExchangeOptions;
  readonly #ended: (exchange: ClientExchange) => void;
  /** Null: the body is kept whole. */
  #events: EventStream | null = null;
  #whole: Buffer[] = [];
  #wholeBytes = 0;
  #isOver = false;
  #isSettled = false;

  /** `ended` is called once, when it is over and its connection is free for the next one. */
  constructor(options: ExchangeOptions, ended: (exchange: ClientExchange) => void) {
    this.#options = options;
    this.#ended = ended;
    this.#parser = new ResponseParser(this);
    this.answer = new Answer(options.dialect, options.patterns, options.expected, options.keepText);
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
    this.#parser.push(bytes);
  }

  lost(nowUs: number, why: string): void {
    this.answer.nowUs = nowUs;
    if (this.#parser.closed()) return;
    const where = this.#parser.begun ? "in the middle of the answer" : "before any answer";
    this.stop("mid-stream end", `${why} ${where}`, nowUs);
  }

  unreachable(nowUs: number, why: string): void {
    this.stop("connect", why, nowUs);
  }

  /** Ends the exchange for this reason. Nothing happens where it has ended. */
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
    if (type.startsWith("text/html")) this.answer.fail("malformed", `an answer of type ${type}`);
    else if (this.#options.stream) this.#events = new EventStream(this.answer);
  }

  body(bytes: Uint8Array, from: number, to: number): void {
    if (this.#events !== null) {
      this.#events.push(bytes, from, to);
      return;
    }
    const room = (this.status === 200 ? WHOLE_LIMIT : ERROR_LIMIT) - this.#wholeBytes;
    if (room <= 0) return;
    const kept = Buffer.from(bytes.subarray(from, Math.min(to, from + room)));
    this.#whole.push(kept);
    this.#wholeBytes += kept.length;
  }

  end(): void {
    const text = () => Buffer.concat(this.#whole).toString("utf8");
    if (this.#events !== null) this.#streamEnded(this.#events);
    else if (this.status === 200) this.answer.whole(text());
    else this.#refused(text());
    this.#over();
  }

  broken(why: string): void {
    this.answer.fail("malformed", why);
    this.#over();
  }

  #streamEnded(events: EventStream): void {
    events.end();
    const { answer } = this;
    const { dialect } = this.#options;
    if (answer.chunks === 0) answer.fail("no token", "the answer ended before its first token");
    else if (!isTriton(dialect) && !answer.done && !answer.finished) {
      answer.fail("mid-stream end", "the answer ended without finish_reason and [DONE]");
    }
  }

  #refused(text: string): void {
    this.errorText = text;
    const retryAfter = this.headers.get("retry-after");
    const after = retryAfter === undefined ? "" : ` (Retry-After: ${retryAfter})`;
    this.answer.fail("status", `HTTP ${this.status}${after}: ${wordsOf(text)}`);
  }

  #over(): void {
    this.#isOver = true;
    this.endUs = this.answer.nowUs;
  }
}

/** The message in an error's JSON, or the beginning of its text. */
function wordsOf(text: string): string {
  try {
    const value = JSON.parse(text);
    return quoted(messageOf(value?.error ?? value?.message ?? value?.detail ?? value));
  } catch {
    return quoted(text) || "no text";
  }
}
