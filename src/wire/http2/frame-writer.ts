/**
 * Writes the frames of a connection to its outbox. Sends data as far as the client's windows permit, one frame of each stream in
 * turn.
 */
import {
  FIRST_WINDOW,
  FRAME_BYTES_MOST,
  FRAME_HEAD_BYTES,
  FrameFlag,
  FrameType,
  SettingId,
  WINDOW_MOST,
  writeFrameHead,
} from "./frames.ts";
import { Outbox, type OutboxOwner } from "./outbox.ts";
import { Http2Stream, type StreamSide } from "./stream.ts";
import { WidestFirst } from "./widest-first.ts";

/** Largest number of open streams of one connection. More are refused. */
export const STREAMS_MOST = 16_384;
/** Largest headers of one request, in bytes as SETTINGS_MAX_HEADER_LIST_SIZE counts them. */
export const HEADER_LIST_BYTES = 16_384;
/** Receive window of a connection: bytes of all its streams that the client may send before they are read. */
const CONNECTION_WINDOW = 16 * 2 ** 20;
/** Bytes of answers and acknowledgements that may wait for a client that does not read. Above it the connection is cut. */
const CONTROL_BYTES_MOST = 4 * 2 ** 20;
/** Number of reset streams that are remembered, because frames of theirs may still be on their way. */
const CUT_MOST = 4096;
/** Per turn of the event loop: frames that waiting streams send, and streams that are ended for a lost client. */
const PUMPED_IN_TURN = 64;
const LOST_IN_TURN = 64;

/** Calls from the writer to the owner of the connection. */
export interface FrameWriterOwner extends OutboxOwner {
  /** Called if the client does not read the answers to its control frames. */
  cut(): void;
  /** Called if a stream ended before its answer. Its request is garbage now. */
  streamLost?(): void;
}

export class FrameWriter implements StreamSide {
  readonly streams = new Map<number, Http2Stream>();
  readonly #owner: FrameWriterOwner;
  readonly #outbox: Outbox;
  readonly #streamEnded: () => void;
  /** Streams that have data and an open window. The first one sends next. */
  readonly #waiting = new Set<Http2Stream>();
  /** Streams that have data, but no window left. */
  readonly #shut = new WidestFirst();
  /** Streams whose windows the client has made larger than the initial window. */
  readonly #widened = new WidestFirst();
  readonly #cut = new Set<number>();
  /** Bytes that the client may still send on this connection. */
  #room = CONNECTION_WINDOW;
  #window = FIRST_WINDOW;
  streamWindow = FIRST_WINDOW;
  /** True if waiting streams continue to send in a later turn. */
  #pumpsLater = false;
  /** True once nothing is written any more. */
  #abandoned = false;
  /** Bytes that were read but not yet returned to the client's window. */
  #owed = 0;
  #sent = false;

  constructor(owner: FrameWriterOwner, streamEnded: () => void) {
    this.#owner = owner;
    this.#outbox = new Outbox(owner);
    this.#streamEnded = streamEnded;
  }

  /** Sends the settings and the window with which a server begins. */
  introduce(): void {
    const settings = [
      [SettingId.Streams, STREAMS_MOST],
      [SettingId.HeaderBytes, HEADER_LIST_BYTES],
    ] as const;
    const payload = Buffer.alloc(settings.length * 6);
    for (const [at, [id, value]] of settings.entries()) {
      payload.writeUInt16BE(id, at * 6);
      payload.writeUInt32BE(value, at * 6 + 2);
    }
    this.#control(FrameType.Settings, 0, 0, payload);
    this.#windowUpdate(0, CONNECTION_WINDOW - FIRST_WINDOW);
  }

  open(id: number): Http2Stream {
    const stream = new Http2Stream(id, this);
    this.streams.set(id, stream);
    return stream;
  }

  /** Reports whether data or headers have left since the last call. */
  sentSince(): boolean {
    const sent = this.#sent;
    this.#sent = false;
    return sent;
  }

  wasCut(id: number): boolean {
    return this.#cut.has(id);
  }

  sendHeaders({ id }: Http2Stream, block: Uint8Array, ends: boolean): void {
    this.#sent = true;
    let from = 0;
    do {
      const to = Math.min(block.length, from + FRAME_BYTES_MOST);
      const type = from === 0 ? FrameType.Headers : FrameType.Continuation;
      const last = to === block.length ? FrameFlag.EndHeaders : 0;
      const part = to - from === block.length ? block : block.subarray(from, to);
      this.#control(type, last | (ends && from === 0 ? FrameFlag.EndStream : 0), id, part);
      from = to;
    } while (from < block.length);
  }

  sendEnd({ id }: Http2Stream): void {
    this.#sent = true;
    this.#control(FrameType.Data, FrameFlag.EndStream, id, NO_BYTES);
  }

  sendData(stream: Http2Stream, bytes: Buffer, from: number, to: number): number {
    const outbox = this.#outbox;
    this.#sent = true;
    let at = from;
    while (at < to && !outbox.blocked && !this.#abandoned) {
      const room = Math.min(to - at, this.#window, stream.window, FRAME_BYTES_MOST);
      if (room <= 0) break;
      const place = outbox.take(FRAME_HEAD_BYTES + room);
      writeFrameHead(outbox.buffer, place, room, FrameType.Data, 0, stream.id);
      bytes.copy(outbox.buffer, place + FRAME_HEAD_BYTES, at, at + room);
      this.#window -= room;
      stream.extra -= room;
      at += room;
      outbox.filled();
    }
    return at - from;
  }

  wait(stream: Http2Stream): void {
    if (this.#abandoned) return;
    if (stream.window <= 0) this.#shut.add(stream);
    else {
      this.#shut.delete(stream);
      this.#waiting.add(stream);
    }
  }

  credit({ id }: Http2Stream, bytes: number): void {
    this.#windowUpdate(id, bytes);
  }

  over(stream: Http2Stream, code: number | null): void {
    if (code !== null) this.#reset(stream.id, code);
    // The answer is complete before the request is, so the client need not send the rest (RFC 9113, section 8.1).
    else if (!stream.remoteEnded) this.#reset(stream.id, 0);
    this.#forget(stream);
  }

  /** Resets a stream whose client broke the rules. */
  refuse(stream: Http2Stream, code: number): void {
    this.#reset(stream.id, code);
    this.lose(stream);
  }

  /** Ends a stream that the client has reset, or that is refused. */
  lose(stream: Http2Stream): void {
    stream.lose();
    this.#forget(stream);
    this.#owner.streamLost?.();
  }

  /** Enlarges the window for sending. Returns false if it becomes larger than allowed. */
  widen(bytes: number): boolean {
    this.#window += bytes;
    if (this.#window > WINDOW_MOST) return false;
    this.#pump();
    return true;
  }

  /** Enlarges the window of one stream for sending. */
  widenStream(stream: Http2Stream, bytes: number): void {
    stream.extra += bytes;
    if (stream.extra > 0) this.#widened.add(stream);
    if (stream.queued === 0) return;
    this.wait(stream);
    this.#pump();
  }

  /**
   * Changes the initial window, and with it the windows of all open streams (RFC 9113, section 6.9.2). Returns false if a window
   * would become larger than allowed. Takes the same time for one open stream as for thousands, because streams that may send now
   * are found later, when they send.
   */
  rewindow(bytes: number): boolean {
    const extra = Math.max(0, this.#widened.first?.extra ?? 0);
    if (bytes + extra > WINDOW_MOST) return false;
    this.streamWindow = bytes;
    return true;
  }

  /** Counts data that arrived on any stream. Returns false if it exceeds the window of the connection. */
  came(bytes: number): boolean {
    this.#room -= bytes;
    return this.#room >= 0;
  }

  taken(bytes: number): void {
    this.#owed += bytes;
    // Returns smaller amounts while most of the window is unread, so that the client does not stall.
    if (this.#owed < Math.min(CONNECTION_WINDOW / 2, this.#room)) return;
    this.#room += this.#owed;
    this.#windowUpdate(0, this.#owed);
    this.#owed = 0;
  }

  /** Acknowledges settings, and sends the data that they permit. */
  acknowledge(): void {
    this.#control(FrameType.Settings, FrameFlag.Ack, 0, NO_BYTES);
    this.#pump();
  }

  ping(): void {
    this.#control(FrameType.Ping, 0, 0, PING);
  }

  pong(payload: Uint8Array): void {
    this.#control(FrameType.Ping, FrameFlag.Ack, 0, payload);
  }

  goAway(last: number, code: number, why: string): void {
    const payload = Buffer.alloc(8 + why.length);
    payload.writeUInt32BE(last, 0);
    payload.writeUInt32BE(code, 4);
    payload.write(why, 8, "latin1");
    this.#control(FrameType.GoAway, 0, 0, payload);
  }

  flush(): void {
    this.#outbox.flush();
  }

  drained(): void {
    this.#outbox.drained();
    this.#pump();
  }

  /** True while the kernel accepts no bytes. */
  get blocked(): boolean {
    return this.#outbox.blocked;
  }

  /** Drops the frames that have not left. */
  close(): void {
    this.#outbox.close();
  }

  /**
   * Ends some of the streams, because their client has left. Ends only some per call, because each may cancel a request. Returns
   * true if streams are left; call it again in a later turn of the event loop. Frames written before still leave, and no others.
   */
  abandon(): boolean {
    this.#abandoned = true;
    this.#waiting.clear();
    this.#shut.clear();
    let left = LOST_IN_TURN;
    for (const stream of this.streams.values()) {
      if (left-- === 0) return true;
      this.lose(stream);
    }
    return false;
  }

  #pump(): void {
    if (this.#pumpsLater) return;
    for (let left = PUMPED_IN_TURN; !this.#outbox.blocked && this.#window > 0; left--) {
      const widest = this.#shut.first;
      if (widest !== undefined && widest.window > 0) this.wait(widest);
      const { value: stream } = this.#waiting.values().next();
      if (stream === undefined) return;
      if (left === 0) {
        this.#pumpsLater = true;
        this.#owner.later(this.#pumpOn);
        return;
      }
      this.#waiting.delete(stream);
      stream.pump();
      if (stream.queued > 0) this.wait(stream);
    }
  }

  readonly #pumpOn = (): void => {
    this.#pumpsLater = false;
    this.#pump();
  };

  #reset(id: number, code: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(code, 0);
    this.#control(FrameType.RstStream, 0, id, payload);
    this.#cut.add(id);
    if (this.#cut.size <= CUT_MOST) return;
    const [first] = this.#cut;
    this.#cut.delete(first!);
  }

  #forget(stream: Http2Stream): void {
    this.#waiting.delete(stream);
    this.#shut.delete(stream);
    this.#widened.delete(stream);
    if (this.streams.delete(stream.id)) this.#streamEnded();
  }

  #windowUpdate(id: number, bytes: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(bytes, 0);
    this.#control(FrameType.WindowUpdate, 0, id, payload);
  }

  #control(type: number, flags: number, id: number, payload: Uint8Array): void {
    if (this.#abandoned) return;
    const outbox = this.#outbox;
    const at = outbox.take(FRAME_HEAD_BYTES + payload.length);
    writeFrameHead(outbox.buffer, at, payload.length, type, flags, id);
    outbox.buffer.set(payload, at + FRAME_HEAD_BYTES);
    outbox.filled();
    if (outbox.blocked && outbox.bytes > CONTROL_BYTES_MOST) this.#owner.cut();
  }
}

const NO_BYTES = new Uint8Array();
/** Payload of our pings. The client returns it, and its content is ignored. */
const PING = new Uint8Array(8);
