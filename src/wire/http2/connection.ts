/** One HTTP/2 connection (RFC 9113): handles its frames, opens streams for the application, and ends the connection. */

import type { ConnectionHandle, ConnectionSide } from "./connection-handle.ts";
import { areRegular, type RequestHead, requestHead } from "./fields.ts";
import { FrameReader, keepable } from "./frame-reader.ts";
import { FrameWriter, STREAMS_MOST } from "./frame-writer.ts";
import {
  CONNECTION_FRAMES,
  ConnectionError,
  checkLength,
  FrameFlag,
  FrameType,
  Http2Code,
  readUint31,
  STREAM_FRAMES,
  unpadded,
  WINDOW_MOST,
} from "./frames.ts";
import { HeaderBlock } from "./header-block.ts";
import { type HeaderField, HpackDecoder } from "./hpack.ts";
import { readSettings, windowTooLarge } from "./settings.ts";
import type { Http2Stream, StreamReceiver } from "./stream.ts";

/** The code that answers requests. */
export interface Http2Application {
  /** Takes a request. Returns the receiver of its body. */
  open(stream: Http2Stream, head: RequestHead, connection: ConnectionHandle): StreamReceiver;
}

/** Cost of a stream that begins, or that the client resets, in about microseconds. Added to the cost of its frame. */
const STREAM_COST = 15;
/** Bytes whose handling costs about a microsecond: of headers (encoded and decoded together), and of data. */
const HEADER_BYTES_PER_US = 128;
const DATA_BYTES_PER_US = 512;
/** Size of a header block and its decoded fields from which they are reported as garbage. Real requests have about 700 bytes. */
const LONG_BLOCK_BYTES = 8192;

export class Http2Connection implements ConnectionHandle {
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #decoder = new HpackDecoder();
  /** True while the socket is not read, because frames wait for a later turn. */
  #paused = false;
  #settled = false;
  #lastId = 0;
  #block: HeaderBlock | null = null;
  #closing = false;
  /** First stream id that is not served any more; null if all are served. */
  #retiredId: number | null = null;

  constructor(private readonly side: ConnectionSide) {
    this.#reader = new FrameReader(
      () => side.nowUs(),
      (type, flags, id, payload) => this.#frame(type, flags, id, payload),
    );
    this.#writer = new FrameWriter(side, () => {
      side.openStreams.ended();
      this.#streamEnded();
    });
    this.#writer.introduce();
  }

  get streams(): number {
    return this.#writer.streams.size;
  }

  /** Takes bytes from the socket. */
  data(bytes: Buffer): void {
    if (this.#closing) return;
    this.side.heard();
    this.#reader.add(bytes);
    if (!this.#paused) this.#take();
  }

  /** Continues reading, or ending streams, in the turn for which the connection was queued. */
  turn(): void {
    if (!this.#closing) {
      this.#take();
      return;
    }
    this.#pause(false);
    this.#abandon();
  }

  /** Ends the streams: some now, the others in later turns. */
  #abandon(): void {
    if (this.#writer.abandon()) this.side.queue();
  }

  #take(): void {
    try {
      this.#reader.read();
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#fail(error);
    }
    // Answers made during the read leave without waiting for the end of the turn.
    this.#writer.flush();
    this.#pause(this.#reader.waits);
    if (this.#paused) this.side.queue();
  }

  /** Stops or continues reading from the socket. A reset by the client is noticed even while it is stopped. */
  #pause(paused: boolean): void {
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.side.pause();
    else this.side.resume();
  }

  drain(): void {
    this.#writer.drained();
    if (this.#ending) this.#done();
  }

  /** Releases everything after the socket was closed. */
  lost(): void {
    this.#closing = true;
    this.#reader.close();
    this.#writer.close();
    this.#abandon();
  }

  get address(): string {
    return this.side.address;
  }

  get port(): number {
    return this.side.port;
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
    this.side.cut();
  }

  refuseNext(connections: number): void {
    this.side.refuseNext(connections);
  }

  ping(): void {
    this.#writer.ping();
  }

  /** Ends the connection with an error code and a text for the client. */
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
    this.side.done();
  }

  #streamEnded(): void {
    if (this.#closing || this.streams > 0) return;
    this.side.rests(true);
    if (this.#retiredId === null) return;
    this.#closing = true;
    this.#reader.close();
    this.#done();
  }

  /** Ends the connection, after the bytes that the kernel has not accepted yet. */
  #done(): void {
    this.#writer.flush();
    this.#ending = this.#writer.blocked;
    if (!this.#ending) this.side.done();
  }
  #ending = false;

  #frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (!this.#settled && type !== FrameType.Settings) throw broken("the first frame must be SETTINGS");
    if (this.#block !== null && (type !== FrameType.Continuation || id !== this.#block.id))
      throw broken("another frame between HEADERS and CONTINUATION");
    if (CONNECTION_FRAMES.has(type) && id !== 0)
      throw broken(`frame type ${type} names stream ${id}, must name stream 0`);
    if (STREAM_FRAMES.has(type) && id === 0) throw broken(`frame type ${type} names stream 0, must name a stream`);
    if (type === FrameType.Data) this.#onData(flags, id, payload);
    else if (type === FrameType.Headers) this.#onHeaders(flags, id, payload);
    else if (type === FrameType.Continuation) this.#onContinuation(flags, payload);
    else if (type === FrameType.WindowUpdate) this.#onWindow(id, payload);
    else if (type === FrameType.Ping) this.#onPing(flags, payload);
    else if (type === FrameType.Settings) this.#onSettings(flags, payload);
    else if (type === FrameType.RstStream) this.#onReset(id, payload);
    else if (type === FrameType.Priority) this.#onPriority(id, payload);
    else if (type === FrameType.PushPromise) throw broken("PUSH_PROMISE from a client");
  }

  #onData(flags: number, id: number, payload: Buffer): void {
    const { streams } = this.#writer;
    if (!this.#writer.came(payload.length))
      throw new ConnectionError(Http2Code.FlowControl, "DATA exceeds the window of the connection");
    this.#reader.spend(payload.length / DATA_BYTES_PER_US);
    const bytes = unpadded(flags, payload);
    const stream = streams.get(id);
    if (stream === undefined || stream.remoteEnded) {
      this.#writer.taken(payload.length);
      this.#closedStream(id);
      return;
    }
    if (!stream.came(payload.length))
      throw new ConnectionError(Http2Code.FlowControl, `DATA exceeds the window of stream ${id}`);
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
    stream.passedOn();
  }

  #onHeaders(flags: number, id: number, payload: Buffer): void {
    const bytes = unpadded(flags, payload);
    const hasPriority = (flags & FrameFlag.Priority) !== 0;
    if (hasPriority && bytes.length < 5)
      throw new ConnectionError(Http2Code.FrameSize, `HEADERS with a priority have ${bytes.length} bytes, must have 5`);
    if (hasPriority && readUint31(bytes, 0) === id) throw broken(`stream ${id} depends on itself`);
    const part = hasPriority ? bytes.subarray(5) : bytes;
    const ended = (flags & FrameFlag.EndHeaders) !== 0;
    this.#block = new HeaderBlock(id, (flags & FrameFlag.EndStream) !== 0);
    this.#block.add(ended ? part : keepable(part));
    if (ended) this.#endBlock();
  }

  #onContinuation(flags: number, payload: Buffer): void {
    const block = this.#block;
    if (block === null) throw broken("CONTINUATION without HEADERS before it");
    block.add(keepable(payload));
    if (flags & FrameFlag.EndHeaders) this.#endBlock();
  }

  #endBlock(): void {
    const block = this.#block!;
    this.#block = null;
    const { id, ends } = block;
    const fields = this.#decode(block.whole());
    const { streams } = this.#writer;
    const stream = streams.get(id);
    if (stream !== undefined) this.#onTrailers(stream, fields, ends);
    else if (id <= this.#lastId) this.#closedStream(id);
    else if (id % 2 === 0) throw broken(`a client opens stream ${id}, must be odd`);
    else this.#open(id, fields, ends);
  }

  /** Decodes a header block, counts its cost, and reports a long one as garbage. */
  #decode(block: Uint8Array): HeaderField[] {
    try {
      return this.#decoder.decode(block);
    } finally {
      const bytes = block.length + this.#decoder.listBytes;
      this.#reader.spend(bytes / HEADER_BYTES_PER_US);
      if (bytes >= LONG_BLOCK_BYTES) this.side.decoded?.(bytes);
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
    this.side.openStreams.opened();
    if (this.streams === 1) this.side.rests(false);
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
    stream.receiver = this.side.application.open(stream, head, this);
    if (ends) stream.receiver.ended();
  }

  /** Reports whether a GOAWAY has announced that this stream is not served. */
  #isRefused(id: number): boolean {
    return this.#retiredId !== null && id >= this.#retiredId;
  }

  #onWindow(id: number, payload: Buffer): void {
    checkLength("WINDOW_UPDATE", payload, 4);
    const more = readUint31(payload, 0);
    if (id === 0) {
      if (more === 0) throw broken("WINDOW_UPDATE increment is 0, must be 1 or more");
      if (!this.#writer.widen(more)) throw windowTooLarge();
      return;
    }
    const stream = this.#writer.streams.get(id);
    if (stream === undefined) {
      if (id > this.#lastId) throw broken(`WINDOW_UPDATE for stream ${id}, which was never opened`);
      return;
    }
    if (more === 0) this.#writer.refuse(stream, Http2Code.Protocol);
    else if (stream.window + more > WINDOW_MOST) this.#writer.refuse(stream, Http2Code.FlowControl);
    else this.#writer.widenStream(stream, more);
  }

  #onPing(flags: number, payload: Buffer): void {
    checkLength("PING", payload, 8);
    if (flags & FrameFlag.Ack) {
      this.side.acknowledged();
      return;
    }
    if (this.side.pings.tooMany(this.#writer.sentSince(), this.streams === 0))
      throw new ConnectionError(Http2Code.Calm, "too_many_pings");
    this.#writer.pong(payload);
  }

  #onSettings(flags: number, payload: Buffer): void {
    if (flags & FrameFlag.Ack) {
      checkLength("SETTINGS acknowledgement", payload, 0);
      return;
    }
    const window = readSettings(payload);
    if (window !== null && !this.#writer.rewindow(window)) throw windowTooLarge();
    this.#writer.acknowledge();
    if (!this.#settled) this.side.settled();
    this.#settled = true;
  }

  #onReset(id: number, payload: Buffer): void {
    checkLength("RST_STREAM", payload, 4);
    const stream = this.#writer.streams.get(id);
    if (stream !== undefined) {
      this.#reader.spend(STREAM_COST);
      this.#writer.lose(stream);
    } else if (id > this.#lastId) throw broken(`RST_STREAM for stream ${id}, which was never opened`);
  }

  #onPriority(id: number, payload: Buffer): void {
    checkLength("PRIORITY", payload, 5);
    if (readUint31(payload, 0) === id) throw broken(`stream ${id} depends on itself`);
  }

  /** Checks a frame of a stream that has ended. Frames that were under way when we ended the stream are no error. */
  #closedStream(id: number): void {
    if (id > this.#lastId) throw broken(`frame for stream ${id}, which was never opened`);
    if (!this.#isRefused(id) && !this.#writer.wasCut(id))
      throw new ConnectionError(Http2Code.StreamClosed, `frame for stream ${id}, which has ended`);
  }
}

const broken = (why: string) => new ConnectionError(Http2Code.Protocol, why);
