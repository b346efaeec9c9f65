/**
 * One request and its answer on a connection. Handlers decide the content of the answer, the connection decides when it is sent.
 */
import { overwriteEachTurn } from "../../base/overwritten-buffers.ts";
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import type { EventSink, HeldBytes, PartSink, SinkEvents } from "../http/sink.ts";
import type { FaultyStream } from "./faulty.ts";
import { CHUNKED, type WireStyle } from "./head.ts";
import { type RawFraming, RawStream } from "./raw-stream.ts";
import { type Head, IncomingRequest, type ReadControl } from "./request.ts";
import { type DrainListener, type LateHeads, type Output, SocketStream } from "./stream.ts";
import { GATHERED_MOST, GatheredParts, NO_BODY, WholeParts } from "./whole-parts.ts";
import type { FaultyOutput } from "./wire-player.ts";

/** A request with its answer, as the HTTP server uses it. HTTP/1 and HTTP/2 implement it; `Exchange` describes the members. */
export interface ServedExchange
  extends FaultyOutput,
    Pick<Exchange, "version" | "faulty" | "answered" | "answer" | "broken" | "open" | "begin"> {
  readonly request: IncomingRequest<ServedExchange & ReadControl>;
  /** Address of the client. */
  readonly connection: { readonly address: string; readonly port: number };
  beginWhole(...answer: Parameters<Exchange["beginWhole"]>): PartSink;
}

/** The connection, as an exchange sees it. */
export interface ExchangeConnection extends Output, Omit<ReadControl, "bodyWanted"> {
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  readonly address: string;
  readonly port: number;
  /** Returns the value of the `date` header at this moment. */
  date(): string;
  /** Holds heads of streams back for their first event; null if heads leave at once. */
  readonly lateHeads: LateHeads | null;
  /** Resets the connection. */
  cut(): void;
  /** Applies the effect of a fault plan on this connection and on others, after a disturbed answer. */
  applyEffect(after: ConnectionEffect): void;
}

enum State {
  Waiting,
  /** The head has been sent. */
  Streaming,
  Complete,
  Gone,
}

const CONTINUE = Buffer.from("HTTP/1.1 100 Continue\r\n\r\n");
/** Buffer in which heads and short bodies are put together. */
const scratch = Buffer.alloc(65_536);
overwriteEachTurn(() => scratch);
/** Largest number of UTF-8 bytes per UTF-16 unit of a string. */
const UTF8_MOST = 3;

export class Exchange implements Output, ReadControl, FaultyOutput {
  readonly request: IncomingRequest<Exchange>;
  readonly version: string;
  readonly connection: ExchangeConnection;
  started = false;
  keepAlive: boolean;
  #expects: boolean;
  #state = State.Waiting;
  #stream: SocketStream | FaultyStream | RawStream | null = null;
  /** Receives the answer if a fault plan disturbs it. */
  faulty: FaultyStream | null = null;
  #parts: WholeParts | null = null;

  constructor(connection: ExchangeConnection, head: Head) {
    this.connection = connection;
    this.version = head.version;
    this.keepAlive = head.keepAlive;
    this.#expects = head.fields.get("expect")?.toLowerCase() === "100-continue";
    this.request = new IncomingRequest(head, connection.scheme, this);
  }

  /** True if the answer is complete or the client has left. */
  get over(): boolean {
    return this.#state >= State.Complete;
  }

  get answered(): boolean {
    return this.#state !== State.Waiting;
  }

  get #headOnly(): boolean {
    return this.request.method === "HEAD";
  }

  /** Answers in one piece. */
  answer(
    status: number,
    headers: Readonly<Record<string, string>>,
    body: string | Uint8Array | null,
    bytes = typeof body === "string" ? Buffer.byteLength(body) : (body?.length ?? 0),
  ): void {
    if (this.#state !== State.Waiting) return;
    this.#applyConnectionHeader(headers);
    const length = NO_BODY.includes(status) ? null : bytes;
    const head = this.connection.style.head(status, headers, length, !this.keepAlive, this.connection.date());
    this.answerWithHead(head, length === null ? null : body);
  }

  /** Sends a whole answer. `head`: status line, header lines and the empty line, as the body needs them. */
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

  /** Sends an interim answer (1xx) before the answer, except to clients of HTTP/1.0. `head`: like that of `answerWithHead`. */
  inform(head: string): void {
    if (this.#state === State.Waiting && this.version === "1.1") this.#send(head, "");
  }

  open(owner: SinkEvents, waiting: HeldBytes | null): EventSink {
    const stream = this.faulty?.open(owner, waiting) ?? new SocketStream(owner, waiting, this);
    this.#stream = stream;
    return stream;
  }

  /**
   * Sends the head, which must state the framing of the body, and returns the stream for the body. Not for answers that a fault
   * plan disturbs.
   */
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
    this.#applyConnectionHeader(headers);
    const framing = this.#headOnly ? null : CHUNKED;
    this.beginWithHead(this.connection.style.head(status, headers, framing, !this.keepAlive, this.connection.date()));
  }

  /** Like `begin`, with a complete head as for `answerWithHead`. It must announce chunks. */
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
    (this.#stream as SocketStream).begin(this.#headOnly ? "" : head, this.connection.lateHeads);
  }

  /** Sends the head of an answer of `bytes` bytes, which are then written to the returned parts. */
  beginWhole(owner: SinkEvents, status: number, headers: Readonly<Record<string, string>>, bytes: number): WholeParts {
    if (bytes > GATHERED_MOST) this.spare();
    const { faulty } = this;
    const gathered =
      faulty === null ? null : new GatheredParts((body) => faulty.answer(head, this.#headOnly ? null : body));
    const parts = new WholeParts(owner, gathered ?? this, bytes);
    this.#parts = parts;
    if (this.#state === State.Gone) parts.gone();
    if (this.#state !== State.Waiting) return parts;
    this.#applyConnectionHeader(headers);
    this.#state = State.Streaming;
    this.request.forget();
    const head = this.connection.style.head(status, headers, bytes, !this.keepAlive, this.connection.date());
    if (faulty === null) this.#send(head, "");
    else this.#stream = faulty;
    return parts;
  }

  /** Cancels the fault plan of an answer that is too large to be kept for it, and reports that to the plan's observer. */
  spare(): void {
    this.faulty?.spare();
    this.faulty = null;
  }

  /** Sends what the stream still holds back, because the socket is about to be closed. */
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

  /** Called by the stream. */
  send(bytes: Uint8Array, length: number, then: DrainListener | null): number {
    return this.#state === State.Streaming && !this.#headOnly ? this.connection.send(bytes, length, then) : 0;
  }

  get fd(): number {
    return this.#state === State.Streaming && !this.#headOnly ? this.connection.fd : -1;
  }

  finished(): void {
    if (this.#state !== State.Streaming) return;
    this.#state = State.Complete;
    this.#end();
  }

  broken(): void {
    this.#stream?.shut();
    this.connection.broken();
  }

  /** Called by the player of a disturbed answer. */
  leave(stays: boolean, after: ConnectionEffect): void {
    if (!stays) this.keepAlive = false;
    this.connection.applyEffect(after);
    this.finished();
  }

  cut(): void {
    this.connection.cut();
  }

  /** Called by the request, like `resume` and `bodyWanted`. */
  pause(): void {
    this.connection.pause();
  }

  resume(): void {
    this.connection.resume();
  }

  bodyWanted(): void {
    if (!this.#expects || this.#state !== State.Waiting) return;
    this.#expects = false;
    this.connection.send(CONTINUE, CONTINUE.length, null);
  }

  /** Closes the connection after the answer if the application asks for that. */
  #applyConnectionHeader(headers: Readonly<Record<string, string>>): void {
    if (headers.connection === "close") this.keepAlive = false;
  }

  #end(): void {
    this.request.drop();
    this.connection.finished();
  }

  #send(head: string, body: string | Uint8Array): void {
    if (typeof body === "string" && head.length + body.length * UTF8_MOST <= scratch.length) {
      const at = scratch.write(head, 0, "latin1");
      this.connection.send(scratch, at + scratch.write(body, at, "utf8"), null);
      return;
    }
    const whole = Buffer.concat([Buffer.from(head, "latin1"), typeof body === "string" ? Buffer.from(body) : body]);
    this.connection.send(whole, whole.length, null);
  }
}
