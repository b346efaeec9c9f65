/** One HTTP/2 connection: takes its frames, opens streams for the application, and ends it: RFC 9113. */
import { areRegular, type RequestHead, requestHead } from "./fields.ts";
import { FrameReader, keepable } from "./frame-reader.ts";
import { FrameWriter, STREAMS_MOST } from "./frame-writer.ts";
import {
  CONNECTION_FRAMES,
  ConnectionError,
  FrameFlag,
  FrameType,
  Http2Code,
  readUint31,
  STREAM_FRAMES,
  unpadded,
  WINDOW_MOST,
} from "./frames.ts";
import { type HeaderField, HpackDecoder } from "./hpack.ts";
import type { ConnectionSide, Http2Line } from "./line.ts";
import { readSettings, windowTooLarge } from "./settings.ts";
import type { Http2Stream, StreamReceiver } from "./stream.ts";

export interface Http2Application {
  /** A request; what its body brings goes to the receiver. */
  open(stream: Http2Stream, head: RequestHead, line: Http2Line): StreamReceiver;
}

/** Limits of one block of headers: its bytes, and the frames that carry it. */
const BLOCK_BYTES_MOST = 65_536;
const BLOCK_FRAMES_MOST = 64;

/** Costs beyond that of any frame, in about microseconds: of a stream that begins or is reset by the client. */
const STREAM_COST = 15;
/** Bytes per microsecond: of headers, coded and decoded together, and of data. */
const HEADER_BYTES_PER_US = 128;
const DATA_BYTES_PER_US = 512;
/** Bytes of a header block and of the fields in it from which they are reported as garbage. Real requests have about 700. */
const LONG_BLOCK_BYTES = 8192;

/** Number of open streams from which newly opened ones are counted, and how many of those are reported together. */
const CROWD_STREAMS = 512;

interface HeaderBlock {
  readonly id: number;
  readonly ends: boolean;
  readonly parts: Uint8Array[];
  bytes: number;
}

export class Http2Connection implements Http2Line {
  readonly #side: ConnectionSide;
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #decoder = new HpackDecoder();
  /** The socket is not read, because frames wait for a later turn. */
  #paused = false;
  #settled = false;
  #lastId = 0;
  #block: HeaderBlock | null = null;
  #closing = false;
  /** Number of streams opened while at least `CROWD_STREAMS` were open. */
  #crowding = 0;
  /** Streams from there on are not served; null: all are. */
  #retiredId: number | null = null;

  constructor(side: ConnectionSide) {
    this.#side = side;
    this.#reader = new FrameReader(
      () => side.nowUs(),
      (type, flags, id, payload) => this.#frame(type, flags, id, payload),
    );
    this.#writer = new FrameWriter(side, () => this.#streamEnded());
    this.#writer.introduce();
  }

  get streams(): number {
    return this.#writer.streams.size;
  }

  /** Takes bytes from the socket. */
  data(bytes: Buffer): void {
    if (this.#closing) return;
    this.#side.heard();
    this.#reader.add(bytes);
    if (!this.#paused) this.#take();
  }

  /** Reads on, in a turn that the connection was queued for. */
  turn(): void {
    if (!this.#closing) {
      this.#take();
      return;
    }
    this.#pause(false);
    this.#abandon();
  }

  /** Ends the streams, some of them now and the others in later turns. */
  #abandon(): void {
    if (this.#writer.abandon()) this.#side.queue();
  }

  #take(): void {
    try {
      this.#reader.read();
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#fail(error);
    }
    // Answers made at once leave at once.
    this.#writer.flush();
    this.#pause(this.#reader.waits);
    if (this.#paused) this.#side.queue();
  }

  /** The socket is not read while frames wait. A reset by the client is noticed nevertheless. */
  #pause(paused: boolean): void {
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.#side.pause();
    else this.#side.resume();
  }

  drain(): void {
    this.#writer.drained();
    if (this.#ending) this.#done();
  }

  /** The socket is closed: nothing that the client sent is read any more. */
  lost(): void {
    this.#closing = true;
    this.#reader.close();
    this.#writer.close();
    this.#abandon();
  }

  get address(): string {
    return this.#side.address;
  }

  get port(): number {
    return this.#side.port;
  }

  retire(code: number = Http2Code.None): void {
    if (this.#closing || this.#retiredId !== null) return;
    this.#retiredId = this.#lastId + 1;
    this.#writer.goAway(this.#lastId, code, "");
    this.#streamEnded();
  }

  disown(last: number, code: number): void {
    this.#retiredId ??= this.#lastId + 1;
    this.#writer.goAway(last, code, "");
  }

  end(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#reader.close();
    this.#abandon();
    this.#done();
  }

  cut(): void {
    this.#writer.flush();
    this.#side.cut();
  }

  refuseNext(connections: number): void {
    this.#side.refuseNext(connections);
  }

  ping(): void {
    this.#writer.ping();
  }

  /** Ends it with a code and a word for the client. */
  refuse(code: number, why: string): void {
    this.#fail(new ConnectionError(code, why));
  }

  #fail({ code, message }: ConnectionError): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#reader.close();
    this.#writer.goAway(this.#lastId, code, message);
    this.#writer.flush();
    this.#writer.close();
    this.#abandon();
    this.#side.done();
  }

  #streamEnded(): void {
    if (this.#closing || this.streams > 0) return;
    this.#side.rests(true);
    if (this.#retiredId === null) return;
    this.#closing = true;
    this.#reader.close();
    this.#done();
  }

  /** What the kernel has not taken is written before the end. */
  #done(): void {
    this.#writer.flush();
    this.#ending = this.#writer.blocked;
    if (!this.#ending) this.#side.done();
  }
  #ending = false;

  #frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (!this.#settled && type !== FrameType.Settings) throw broken("the first frame is not SETTINGS");
    if (this.#block !== null && (type !== FrameType.Continuation || id !== this.#block.id))
      throw broken("a block of headers is interrupted");
    if (CONNECTION_FRAMES.has(type) && id !== 0) throw broken("a frame of the connection names a stream");
    if (STREAM_FRAMES.has(type) && id === 0) throw broken("a frame of a stream names none");
    if (type === FrameType.Data) this.#onData(flags, id, payload);
    else if (type === FrameType.Headers) this.#onHeaders(flags, id, payload);
    else if (type === FrameType.Continuation) this.#onContinuation(flags, payload);
    else if (type === FrameType.WindowUpdate) this.#onWindow(id, payload);
    else if (type === FrameType.Ping) this.#onPing(flags, payload);
    else if (type === FrameType.Settings) this.#onSettings(flags, payload);
    else if (type === FrameType.RstStream) this.#onReset(id, payload);
    else if (type === FrameType.Priority) this.#onPriority(id, payload);
    else if (type === FrameType.PushPromise) throw broken("a client promises a push");
  }

  #onData(flags: number, id: number, payload: Buffer): void {
    const { streams } = this.#writer;
    if (!this.#writer.came(payload.length))
      throw new ConnectionError(Http2Code.FlowControl, "a connection sends more than it may");
    this.#reader.spend(payload.length / DATA_BYTES_PER_US);
    const bytes = unpadded(flags, payload);
    const stream = streams.get(id);
    if (stream === undefined || stream.remoteEnded) {
      this.#writer.taken(payload.length);
      this.#closedStream(id);
      return;
    }
    if (!stream.came(payload.length))
      throw new ConnectionError(Http2Code.FlowControl, "a stream sends more than it may");
    stream.body += bytes.length;
    const ends = (flags & FrameFlag.EndStream) !== 0;
    const { expects, body } = stream;
    if (expects !== null && (body > expects || (ends && body !== expects))) {
      this.#writer.refuse(stream, Http2Code.Protocol);
      return;
    }
    stream.remoteEnded = ends;
    if (bytes.length > 0) stream.receiver?.data(keepable(bytes));
    if (ends) stream.receiver?.ended();
    stream.given();
  }

  #onHeaders(flags: number, id: number, payload: Buffer): void {
    const bytes = unpadded(flags, payload);
    const hasPriority = (flags & FrameFlag.Priority) !== 0;
    if (hasPriority && bytes.length < 5) throw new ConnectionError(Http2Code.FrameSize, "HEADERS are too short");
    if (hasPriority && readUint31(bytes, 0) === id) throw broken("a stream depends on itself");
    const part = hasPriority ? bytes.subarray(5) : bytes;
    const ended = (flags & FrameFlag.EndHeaders) !== 0;
    this.#block = {
      id,
      ends: (flags & FrameFlag.EndStream) !== 0,
      parts: [ended ? part : keepable(part)],
      bytes: part.length,
    };
    if (ended) this.#endBlock();
  }

  #onContinuation(flags: number, payload: Buffer): void {
    const block = this.#block;
    if (block === null) throw broken("CONTINUATION without HEADERS");
    block.parts.push(keepable(payload));
    block.bytes += payload.length;
    if (block.bytes > BLOCK_BYTES_MOST || block.parts.length > BLOCK_FRAMES_MOST)
      throw new ConnectionError(Http2Code.Calm, "a block of headers is too large");
    if (flags & FrameFlag.EndHeaders) this.#endBlock();
  }

  #endBlock(): void {
    const { id, ends, parts } = this.#block!;
    this.#block = null;
    const fields = this.#decode(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
    const { streams } = this.#writer;
    const stream = streams.get(id);
    if (stream !== undefined) this.#onTrailers(stream, fields, ends);
    else if (id <= this.#lastId) this.#closedStream(id);
    else if (id % 2 === 0) throw broken("a client opens an even stream");
    else this.#open(id, fields, ends);
  }

  #decode(block: Uint8Array): HeaderField[] {
    try {
      return this.#decoder.decode(block);
    } finally {
      const bytes = block.length + this.#decoder.listBytes;
      this.#reader.spend(bytes / HEADER_BYTES_PER_US);
      if (bytes >= LONG_BLOCK_BYTES) this.#side.decoded?.(bytes);
    }
  }

  #onTrailers(stream: Http2Stream, fields: readonly HeaderField[], ends: boolean): void {
    if (stream.remoteEnded) this.#closedStream(stream.id);
    else if (!ends || !areRegular(fields)) this.#writer.refuse(stream, Http2Code.Protocol);
    else {
      stream.remoteEnded = true;
      stream.receiver?.ended();
    }
  }

  #open(id: number, fields: readonly HeaderField[], ends: boolean): void {
    this.#lastId = id;
    this.#reader.spend(STREAM_COST);
    if (this.#isRefused(id)) return;
    const stream = this.#writer.open(id);
    if (this.streams === 1) this.#side.rests(false);
    const head = requestHead(fields);
    if (head === null || (ends && (head.bytes ?? 0) > 0)) {
      this.#writer.refuse(stream, Http2Code.Protocol);
      return;
    }
    if (this.streams > STREAMS_MOST) {
      this.#writer.refuse(stream, Http2Code.Refused);
      return;
    }
    stream.expects = head.bytes;
    stream.remoteEnded = ends;
    stream.receiver = this.#side.application.open(stream, head, this);
    if (ends) stream.receiver.ended();
    if (this.streams >= CROWD_STREAMS && ++this.#crowding % CROWD_STREAMS === 0) this.#side.crowded?.();
  }

  /** A GOAWAY is under way that says so. */
  #isRefused(id: number): boolean {
    return this.#retiredId !== null && id >= this.#retiredId;
  }

  #onWindow(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new ConnectionError(Http2Code.FrameSize, "WINDOW_UPDATE has another length");
    const more = readUint31(payload, 0);
    if (id === 0) {
      if (more === 0) throw broken("a window grows by nothing");
      if (!this.#writer.widen(more)) throw windowTooLarge();
      return;
    }
    const stream = this.#writer.streams.get(id);
    if (stream === undefined) {
      if (id > this.#lastId) throw broken("a window of a stream that is not open");
      return;
    }
    if (more === 0) this.#writer.refuse(stream, Http2Code.Protocol);
    else if (stream.window + more > WINDOW_MOST) this.#writer.refuse(stream, Http2Code.FlowControl);
    else this.#writer.widenStream(stream, more);
  }

  #onPing(flags: number, payload: Buffer): void {
    if (payload.length !== 8) throw new ConnectionError(Http2Code.FrameSize, "PING has another length");
    if (flags & FrameFlag.Ack) {
      this.#side.acknowledged();
      return;
    }
    if (this.#side.pings.tooMany(this.#writer.sentSince(), this.streams === 0))
      throw new ConnectionError(Http2Code.Calm, "too_many_pings");
    this.#writer.pong(payload);
  }

  #onSettings(flags: number, payload: Buffer): void {
    if (flags & FrameFlag.Ack) {
      if (payload.length > 0) throw new ConnectionError(Http2Code.FrameSize, "an acknowledgement with settings");
      return;
    }
    const window = readSettings(payload);
    if (window !== null && !this.#writer.rewindow(window)) throw windowTooLarge();
    this.#writer.acknowledge();
    if (!this.#settled) this.#side.settled();
    this.#settled = true;
  }

  #onReset(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new ConnectionError(Http2Code.FrameSize, "RST_STREAM has another length");
    const stream = this.#writer.streams.get(id);
    if (stream !== undefined) {
      this.#reader.spend(STREAM_COST);
      this.#writer.lose(stream);
    } else if (id > this.#lastId) throw broken("a stream that is not open is reset");
  }

  #onPriority(id: number, payload: Buffer): void {
    if (payload.length !== 5) throw new ConnectionError(Http2Code.FrameSize, "PRIORITY has another length");
    if (readUint31(payload, 0) === id) throw broken("a stream depends on itself");
  }

  /** A frame of a stream that is over: what was under way when it was ended here is nothing wrong. */
  #closedStream(id: number): void {
    if (id > this.#lastId) throw broken("a frame of a stream that is not open");
    if (!this.#isRefused(id) && !this.#writer.wasCut(id))
      throw new ConnectionError(Http2Code.StreamClosed, "a frame of a stream that has ended");
  }
}

const broken = (why: string) => new ConnectionError(Http2Code.Protocol, why);
