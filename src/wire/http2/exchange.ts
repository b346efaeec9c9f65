/**
 * One request and its answer over HTTP/2. Like the exchange of HTTP/1, with a stream in place of the connection and frames in
 * place of chunks.
 */
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import type { EventSink, HeldBytes, PartSink, SinkEvents } from "../http/sink.ts";
import type { UnfinishedOwner, UnfinishedRequests } from "../http/unfinished.ts";
import type { ServedExchange } from "../http1/exchange.ts";
import type { FaultyStream } from "../http1/faulty.ts";
import type { WireStyle } from "../http1/head.ts";
import { HeaderFields, IncomingRequest, type ReadControl } from "../http1/request.ts";
import type { DrainListener, Output } from "../http1/stream.ts";
import { GATHERED_MOST, GatheredParts, NO_BODY, WholeParts } from "../http1/whole-parts.ts";
import type { FaultyOutput } from "../http1/wire-player.ts";
import type { ConnectionHandle } from "./connection-handle.ts";
import { DataStream } from "./data-stream.ts";
import type { RequestHead } from "./fields.ts";
import { Http2Code } from "./frames.ts";
import { encodeFields, type HeaderField } from "./hpack.ts";
import type { Http2Stream, StreamReceiver } from "./stream.ts";

/** The server, as its exchanges see it. */
export interface ExchangeServer {
  readonly scheme: "http" | "https";
  readonly style: Pick<WireStyle, "head">;
  date(): string;
  readonly unfinished: UnfinishedRequests;
  /** Ends that a fault plan gives to connections when their next request arrives. */
  readonly fates: WeakMap<ConnectionHandle, ConnectionEffect["next"]>;
}

enum State {
  Waiting,
  /** The head has been sent. */
  Streaming,
  Complete,
  Gone,
}

const CONTINUE = encodeFields([[":status", "100"]]);
/** Headers that only HTTP/1 has. */
const HTTP1_ONLY = ["connection", "transfer-encoding"];

export class Http2Exchange
  implements ServedExchange, StreamReceiver, ReadControl, UnfinishedOwner, Pick<Output, "send">
{
  readonly request: IncomingRequest<Http2Exchange>;
  readonly version = "2";
  readonly connection: ConnectionHandle;
  faulty: FaultyStream | null = null;
  readonly #stream: Http2Stream;
  readonly #server: ExchangeServer;
  #expects: boolean;
  #state = State.Waiting;
  #events: DataStream | FaultyStream | null = null;
  #parts: WholeParts | null = null;
  #then: DrainListener | null = null;
  /** Bytes so far of a head that a fault plan sends in parts, as Latin-1. */
  #headText = "";
  /** Number of reasons to pause reading: a body that no handler reads, too many unfinished requests. */
  #pauses = 0;

  constructor(stream: Http2Stream, head: RequestHead, connection: ConnectionHandle, server: ExchangeServer) {
    this.connection = connection;
    this.#stream = stream;
    this.#server = server;
    const { method, path: target } = head;
    const all: readonly HeaderField[] = [["host", head.authority], ...head.fields];
    const sent = all.slice(head.authority === "" ? 1 : 0);
    const fields = new HeaderFields(
      sent.map(([name]) => name),
      sent.map(([, value]) => value),
    );
    this.#expects = fields.get("expect")?.toLowerCase() === "100-continue";
    const read = { method, target, version: "2" as const, fields, keepAlive: true };
    // Pauses at 0 unread bytes, because unread bytes take up the receive window of the connection.
    this.request = new IncomingRequest(read, server.scheme, this, 0);
  }

  get answered(): boolean {
    return this.#state !== State.Waiting;
  }

  get #headOnly(): boolean {
    return this.request.method === "HEAD";
  }

  answer(status: number, headers: Readonly<Record<string, string>>, body: string | Uint8Array | null): void {
    if (this.#state !== State.Waiting) return;
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const length = NO_BODY.includes(status) ? null : (bytes?.length ?? 0);
    const head = this.#headOf(status, headers, length);
    this.#state = State.Streaming;
    const sentBody = this.#headOnly ? null : bytes;
    if (this.faulty !== null) {
      this.#events = this.faulty;
      this.faulty.answer(head, sentBody);
    } else if (length === null || sentBody === null || length === 0) {
      this.#stream.head(blockOf(head), true);
      this.#end();
    } else {
      this.#stream.head(blockOf(head), false);
      this.#stream.write(asBuffer(sentBody));
      this.finished();
    }
  }

  open(owner: SinkEvents, waiting: HeldBytes | null): EventSink {
    this.#events = this.faulty?.open(owner, waiting) ?? new DataStream(owner, waiting, this);
    return this.#events;
  }

  begin(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#state === State.Gone) this.#events?.gone();
    if (this.#state !== State.Waiting) return;
    this.#state = State.Streaming;
    this.request.forget();
    const head = this.#headOf(status, headers, null);
    if (this.faulty === null) this.#stream.head(blockOf(head), false);
    this.#events!.begin(head);
  }

  beginWhole(owner: SinkEvents, status: number, headers: Readonly<Record<string, string>>, bytes: number): PartSink {
    if (bytes > GATHERED_MOST) {
      this.faulty?.spare();
      this.faulty = null;
    }
    const { faulty } = this;
    const gathered =
      faulty === null ? null : new GatheredParts((body) => faulty.answer(head, this.#headOnly ? null : body));
    const parts = new WholeParts(owner, gathered ?? this, bytes);
    this.#parts = parts;
    if (this.#state === State.Gone) parts.gone();
    if (this.#state !== State.Waiting) return parts;
    this.#state = State.Streaming;
    this.request.forget();
    const head = this.#headOf(status, headers, bytes);
    if (faulty === null) this.#stream.head(blockOf(head), false);
    else this.#events = faulty;
    return parts;
  }

  /** Called by the streams of answers, like `finished` and `broken`. */
  send(bytes: Uint8Array, length: number, then: DrainListener | null): number {
    if (this.#state !== State.Streaming || this.#headOnly) return 0;
    const before = this.#stream.queued;
    this.#stream.write(asBuffer(bytes), length);
    const left = this.#stream.queued - before;
    if (left > 0) this.#then = then;
    return left;
  }

  finished(): void {
    if (this.#state !== State.Streaming) return;
    this.#stream.end();
    this.#end();
  }

  broken(): void {
    this.#reset(Http2Code.Internal);
  }

  /** Called by the player of a disturbed answer. */
  leave(stays: boolean, after: ConnectionEffect): void {
    if (after.next !== null) this.#server.fates.set(this.connection, after.next);
    if (after.refused > 0) this.connection.refuseNext(after.refused);
    if (stays) this.finished();
    else this.connection.end();
  }

  cut(): void {
    this.connection.cut();
  }

  readonly frames: NonNullable<FaultyOutput["frames"]> = {
    head: (bytes) => {
      this.#headText += Buffer.from(bytes).toString("latin1");
      if (!this.#headText.endsWith("\r\n\r\n")) return;
      this.#stream.head(blockOf(this.#headText), false);
      this.#headText = "";
    },
    goAway: (code, unserved) => {
      if (unserved) this.connection.disown(Math.max(0, this.#stream.id - 2), code);
      else this.connection.retire(code);
    },
    reset: (code) => this.#reset(code),
  };

  /** Called by the request, like `resume` and `bodyWanted`. */
  pause(): void {
    if (this.#pauses++ === 0) this.#stream.pause();
  }

  resume(): void {
    if (--this.#pauses === 0) this.#stream.resume();
  }

  giveWay(): void {
    if (!this.request.giveWay()) this.cut();
  }

  bodyWanted(): void {
    if (!this.#expects || this.#state !== State.Waiting) return;
    this.#expects = false;
    this.#stream.head(CONTINUE, false);
  }

  /** Called by the HTTP/2 stream, as are all methods below. */
  data(bytes: Uint8Array): void {
    this.request.came(bytes);
    const { unfinishedBytes } = this.request;
    if (unfinishedBytes > 0) this.#server.unfinished.holds(this, unfinishedBytes);
    else this.#server.unfinished.leaves(this);
  }

  ended(): void {
    this.#server.unfinished.leaves(this);
    this.request.ended();
  }

  gone(): void {
    this.#server.unfinished.drops(this);
    if (this.#state >= State.Complete) return;
    this.#state = State.Gone;
    this.request.gone();
    this.#events?.gone();
    this.faulty?.gone();
    this.#parts?.gone();
  }

  drained(): void {
    const then = this.#then;
    this.#then = null;
    then?.drained();
  }

  #reset(code: number): void {
    if (this.#state !== State.Streaming) return;
    this.#stream.reset(code);
    this.#end();
  }

  #end(): void {
    this.#state = State.Complete;
    this.#server.unfinished.leaves(this);
    this.request.drop();
  }

  #headOf(status: number, headers: Readonly<Record<string, string>>, bytes: number | null): string {
    return this.#server.style.head(status, headers, bytes, false, this.#server.date());
  }
}

/** The last head, encoded. Consecutive answers often have the same head. */
let last = { text: "", block: encodeFields([]) };

/** Encodes the head of an HTTP/1 answer as a header block. */
function blockOf(text: string): Buffer {
  if (last.text === text) return last.block;
  const [line = "", ...lines] = text.slice(0, text.indexOf("\r\n\r\n")).split("\r\n");
  const fields = lines
    .map(
      (field): HeaderField => [field.slice(0, field.indexOf(":")).toLowerCase(), field.slice(field.indexOf(":") + 2)],
    )
    .filter(([name]) => !HTTP1_ONLY.includes(name));
  last = { text, block: encodeFields([[":status", line.split(" ")[1]!], ...fields]) };
  return last.block;
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
