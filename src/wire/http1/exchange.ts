/** How does one request get its answer? Between the handlers, who say what, and the connection, which says when. */
import { overwriteEachTurn } from "../../base/overwritten-buffers.ts";
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import type { EventSink, HeldBytes, PartSink, SinkEvents } from "../http/sink.ts";
import type { FaultyStream } from "./faulty.ts";
import { CHUNKED, type WireStyle } from "./head.ts";
import { type RawFraming, RawStream } from "./raw-stream.ts";
import { type Head, IncomingRequest, type ReadControl } from "./request.ts";
import { type Drained, type LateHeads, type Output, SocketStream } from "./stream.ts";
import { GATHERED_MOST, GatheredParts, NO_BODY, WholeParts } from "./whole-parts.ts";
import type { FaultyOutput } from "./wire-player.ts";

/** A request with its answer, as the server hands it out; `Exchange` says what each part does. */
export interface ServedExchange
  extends FaultyOutput,
    Pick<Exchange, "version" | "faulty" | "answered" | "answer" | "broken" | "open" | "begin"> {
  readonly request: IncomingRequest<ServedExchange & ReadControl>;
  /** The client. */
  readonly line: { readonly address: string; readonly port: number };
  beginWhole(...answer: Parameters<Exchange["beginWhole"]>): PartSink;
}

/** The connection, as an exchange sees it. */
export interface ExchangeConnection extends Output, Omit<ReadControl, "wanted"> {
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  readonly address: string;
  readonly port: number;
  /** `date`'s value now. */
  date(): string;
  /** Takes heads that may leave with the first event; null if heads of streams leave at once. */
  readonly lateHeads: LateHeads | null;
  /** Resets the connection. */
  cut(): void;
  /** What becomes of it, and of others, behind this answer. */
  aftermath(after: ConnectionEffect): void;
}

enum State {
  Waiting,
  /** The head is out. */
  Streaming,
  Complete,
  Gone,
}

const CONTINUE = Buffer.from("HTTP/1.1 100 Continue\r\n\r\n");
/** Heads and short bodies are put together here. */
const scratch = Buffer.alloc(65_536);
overwriteEachTurn(() => scratch);
/** A character takes at most so many bytes of UTF-8. */
const UTF8_MOST = 3;

export class Exchange implements Output, ReadControl, FaultyOutput {
  readonly request: IncomingRequest<Exchange>;
  readonly version: string;
  readonly line: ExchangeConnection;
  started = false;
  keepAlive: boolean;
  #expects: boolean;
  #state = State.Waiting;
  #stream: SocketStream | FaultyStream | RawStream | null = null;
  /** Takes the answer where a plan disturbs it. */
  faulty: FaultyStream | null = null;
  #parts: WholeParts | null = null;

  constructor(line: ExchangeConnection, head: Head) {
    this.line = line;
    this.version = head.version;
    this.keepAlive = head.keepAlive;
    this.#expects = head.fields.get("expect")?.toLowerCase() === "100-continue";
    this.request = new IncomingRequest(head, line.scheme, this);
  }

  /** The answer is complete, or nobody is there for it. */
  get over(): boolean {
    return this.#state >= State.Complete;
  }

  get answered(): boolean {
    return this.#state !== State.Waiting;
  }

  get #headOnly(): boolean {
    return this.request.method === "HEAD";
  }

  /** An answer in one piece. */
  answer(
    status: number,
    headers: Readonly<Record<string, string>>,
    body: string | Uint8Array | null,
    bytes = typeof body === "string" ? Buffer.byteLength(body) : (body?.length ?? 0),
  ): void {
    if (this.#state !== State.Waiting) return;
    this.#obey(headers);
    const length = NO_BODY.includes(status) ? null : bytes;
    const head = this.line.style.head(status, headers, length, !this.keepAlive, this.line.date());
    this.answerWithHead(head, length === null ? null : body);
  }

  /** Sends a whole answer. `head`: status line, header lines and the empty line, which fit the body. */
  answerWithHead(head: string, body: string | Uint8Array | null): void {
    if (this.#state !== State.Waiting) return;
    if (this.faulty !== null) {
      this.#state = State.Streaming;
      this.#stream = this.faulty;
      this.faulty.answer(head, this.#headOnly ? null : body);
      return;
    }
    this.#state = State.Complete;
    if (this.#headOnly || body === null) this.#send(head, "");
    else this.#send(head, body);
    this.#end();
  }

  /** Sends an interim answer (1xx) before the answer. `head`: as of `answerWithHead`. HTTP/1.0 knows none. */
  inform(head: string): void {
    if (this.#state === State.Waiting && this.version === "1.1") this.#send(head, "");
  }

  open(owner: SinkEvents, waiting: HeldBytes | null): EventSink {
    const stream = this.faulty?.open(owner, waiting) ?? new SocketStream(owner, waiting, this);
    this.#stream = stream;
    return stream;
  }

  /** Sends the head, which says how the body is framed, and returns where the body goes. Not for answers that a plan disturbs. */
  beginRaw(owner: SinkEvents, head: string, framing: RawFraming): RawStream {
    const stream = new RawStream(owner, this, framing);
    this.#stream = stream;
    if (this.#state === State.Gone) stream.gone();
    if (this.#state !== State.Waiting) return stream;
    this.#state = State.Streaming;
    this.request.forget();
    this.#send(head, "");
    return stream;
  }

  /** Begins the stream that `open` returned. Its head leaves at once, or with its first event: see `lateHeads`. */
  begin(status: number, headers: Readonly<Record<string, string>>): void {
    this.#obey(headers);
    const framing = this.#headOnly ? null : CHUNKED;
    this.beginWithHead(this.line.style.head(status, headers, framing, !this.keepAlive, this.line.date()));
  }

  /** As `begin`. `head`: as of `answerWithHead`; says that chunks follow. */
  beginWithHead(head: string): void {
    // The client may have left while the request waited for a free moment of the event loop.
    if (this.#state === State.Gone) this.#stream?.gone();
    if (this.#state !== State.Waiting) return;
    this.#state = State.Streaming;
    this.request.forget();
    if (this.faulty !== null) {
      this.faulty.begin(head);
      return;
    }
    if (this.#headOnly) this.#send(head, "");
    (this.#stream as SocketStream).begin(this.#headOnly ? "" : head, this.line.lateHeads);
  }

  /** The head of an answer of so many bytes, and then those. */
  beginWhole(owner: SinkEvents, status: number, headers: Readonly<Record<string, string>>, bytes: number): WholeParts {
    if (bytes > GATHERED_MOST) this.spare();
    const { faulty } = this;
    const gathered =
      faulty === null ? null : new GatheredParts((body) => faulty.answer(head, this.#headOnly ? null : body));
    const parts = new WholeParts(owner, gathered ?? this, bytes);
    this.#parts = parts;
    if (this.#state === State.Gone) parts.gone();
    if (this.#state !== State.Waiting) return parts;
    this.#obey(headers);
    this.#state = State.Streaming;
    this.request.forget();
    const head = this.line.style.head(status, headers, bytes, !this.keepAlive, this.line.date());
    if (faulty === null) this.#send(head, "");
    else this.#stream = faulty;
    return parts;
  }

  /** Takes the plan off the answer, because the answer is too large to be kept for it, and tells the plan's witness. */
  spare(): void {
    this.faulty?.spare();
    this.faulty = null;
  }

  /** The socket is about to be closed. */
  shut(): void {
    this.#stream?.shut();
  }

  /** The client left, or the connection is closed for another reason. */
  gone(): void {
    if (this.over) return;
    this.#state = State.Gone;
    this.request.gone();
    this.#stream?.gone();
    this.faulty?.gone();
    this.#parts?.gone();
  }

  /** For the stream. */
  send(bytes: Uint8Array, length: number, then: Drained | null): number {
    return this.#state === State.Streaming && !this.#headOnly ? this.line.send(bytes, length, then) : 0;
  }

  get fd(): number {
    return this.#state === State.Streaming && !this.#headOnly ? this.line.fd : -1;
  }

  finished(): void {
    if (this.#state !== State.Streaming) return;
    this.#state = State.Complete;
    this.#end();
  }

  broken(): void {
    this.#stream?.shut();
    this.line.broken();
  }

  /** For an answer that was disturbed. */
  leave(stays: boolean, after: ConnectionEffect): void {
    if (!stays) this.keepAlive = false;
    this.line.aftermath(after);
    this.finished();
  }

  cut(): void {
    this.line.cut();
  }

  /** For the request. */
  pause(): void {
    this.line.pause();
  }

  resume(): void {
    this.line.resume();
  }

  wanted(): void {
    if (!this.#expects || this.#state !== State.Waiting) return;
    this.#expects = false;
    this.line.send(CONTINUE, CONTINUE.length, null);
  }

  /** What the application says of the connection counts too. */
  #obey(headers: Readonly<Record<string, string>>): void {
    if (headers.connection === "close") this.keepAlive = false;
  }

  #end(): void {
    this.request.drop();
    this.line.finished();
  }

  #send(head: string, body: string | Uint8Array): void {
    if (typeof body === "string" && head.length + body.length * UTF8_MOST <= scratch.length) {
      const at = scratch.write(head, 0, "latin1");
      this.line.send(scratch, at + scratch.write(body, at, "utf8"), null);
      return;
    }
    const whole = Buffer.concat([Buffer.from(head, "latin1"), typeof body === "string" ? Buffer.from(body) : body]);
    this.line.send(whole, whole.length, null);
  }
}
