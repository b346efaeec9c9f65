/** What is one stream of a connection? Bytes in as they come; what is written waits for its windows, and the end waits for it. */
import type { HeldBytes } from "../http/sink.ts";
import { FIRST_WINDOW, FRAME_BYTES_MOST } from "./frames.ts";

/** What a stream brings to its owner. Bytes are the owner's to keep. */
export interface StreamReceiver {
  data(bytes: Uint8Array): void;
  /** The client has sent all. */
  ended(): void;
  /** Once, instead of what else would come: the client reset the stream or is gone. Nothing more can be sent. */
  gone(): void;
  /** All that waited has left, or never will. */
  drained?(): void;
}

/** What a stream needs of its connection. */
export interface StreamSide {
  /** Window with which each stream begins, as the client's settings say now. */
  readonly streamWindow: number;
  /** Gives how many of the bytes left: less where a window is used up, or the kernel takes nothing. */
  sendData(stream: Http2Stream, bytes: Buffer, from: number, to: number): number;
  sendHeaders(stream: Http2Stream, block: Uint8Array, ends: boolean): void;
  /** The end, without trailers. */
  sendEnd(stream: Http2Stream): void;
  /** Calls the stream's `pump` when its window and the socket have room. */
  wait(stream: Http2Stream): void;
  /** Lets the client send so many bytes more. */
  credit(stream: Http2Stream, bytes: number): void;
  /** So many bytes of data stand here no longer: on whatever stream, the client may send as many again. */
  taken(bytes: number): void;
  /** With a code: the client is told. */
  over(stream: Http2Stream, code: number | null): void;
}

/**
 * What a stream's client may send ahead, once anything of it was read; before that it is HTTP/2's first window, so that
 * streams which nobody reads yet do not use up what their connection may hold.
 */
const STREAM_WINDOW = 1_048_576;
const NO_TRAILERS = new Uint8Array();

export class Http2Stream {
  readonly id: number;
  /**
   * Bytes that may be sent beyond the window with which streams begin: those that the client added, less those that were
   * sent. When the client changes the first window, the windows of all streams change with it.
   */
  extra = 0;
  /** What the client may send. */
  room = FIRST_WINDOW;
  receiver: StreamReceiver | null = null;
  /** Told of the bytes that wait; to be set before anything does. */
  held: HeldBytes | null = null;
  /** The client has sent all. */
  remoteEnded = false;
  /** As the head promised; null: it did not. */
  expects: number | null = null;
  /** Bytes of the body so far. */
  body = 0;
  readonly #side: StreamSide;
  #queue: Buffer[] = [];
  /** How much of the first part has left. */
  #from = 0;
  #queued = 0;
  #trailers: Uint8Array | null = null;
  #localEnded = false;
  /** The whole window of what the client may send. */
  #span = FIRST_WINDOW;
  #owed = 0;
  /** Came while it was paused: the connection has them back when they are read. */
  #unread = 0;
  #paused = false;

  constructor(id: number, side: StreamSide) {
    this.id = id;
    this.#side = side;
  }

  /** Bytes that may be sent; below 0 if the client has made the window smaller than what was sent. */
  get window(): number {
    return this.#side.streamWindow + this.extra;
  }

  /** Bytes that wait. */
  get queued(): number {
    return this.#queued;
  }

  /** Nothing more can be written. */
  get ended(): boolean {
    return this.#localEnded || this.#trailers !== null;
  }

  /** `block`: encoded fields. */
  head(block: Uint8Array, ends: boolean): void {
    if (this.ended) return;
    this.#localEnded = ends;
    this.#side.sendHeaders(this, block, ends);
    if (ends) this.#finish();
  }

  /** Takes so many of the bytes as they are; they may change afterwards unless they are `given`. */
  write(bytes: Buffer, length = bytes.length, given = false): void {
    if (this.ended) return;
    const sent = this.#queued > 0 ? 0 : this.#side.sendData(this, bytes, 0, length);
    if (sent === length) return;
    const rest = bytes.subarray(sent, length);
    // A copy, which a Buffer's `slice` is not.
    this.#queue.push(given ? rest : Buffer.from(rest));
    this.#queued += length - sent;
    this.held?.held(length - sent);
    this.#side.wait(this);
  }

  /** The trailers, or none, behind all that waits. */
  end(block: Uint8Array = NO_TRAILERS): void {
    if (this.ended) return;
    this.#trailers = block;
    if (this.#queued === 0) this.#close();
  }

  /** Drops what waits. */
  reset(code: number): void {
    if (this.#localEnded) return;
    this.#localEnded = true;
    this.#drop();
    this.#side.over(this, code);
  }

  /** The client may send no more than it was allowed to. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.given();
  }

  /** For the connection: so many bytes of the window are used. False: it had no room for them. */
  came(bytes: number): boolean {
    this.room -= bytes;
    this.#owed += bytes;
    this.#unread += bytes;
    return this.room >= 0;
  }

  /** For the connection: what came was given on. It may be sent again unless the owner has paused. */
  given(): void {
    if (this.#paused) return;
    this.#giveBack();
    if (this.remoteEnded || this.#localEnded || this.#owed < this.#span / 2) return;
    const more = this.#owed + STREAM_WINDOW - this.#span;
    this.#span = STREAM_WINDOW;
    this.room += more;
    this.#owed = 0;
    this.#side.credit(this, more);
  }

  /** For the connection: sends one frame of the data that waits, or the end behind it. */
  pump(): void {
    const first = this.#queue[0];
    if (first !== undefined) {
      const to = Math.min(first.length, this.#from + FRAME_BYTES_MOST);
      const sent = this.#side.sendData(this, first, this.#from, to);
      this.#from += sent;
      this.#queued -= sent;
      this.held?.held(-sent);
      if (this.#from === first.length) {
        this.#queue.shift();
        this.#from = 0;
      }
      if (this.#queued === 0) this.receiver?.drained?.();
    }
    if (this.#queued === 0 && this.#trailers !== null && !this.#localEnded) this.#close();
  }

  /** For the connection: there is no client any more. */
  lose(): void {
    const { ended, receiver } = this;
    this.#localEnded = true;
    if (!ended) receiver?.gone();
    this.#drop();
    this.receiver = null;
  }

  #giveBack(): void {
    const unread = this.#unread;
    this.#unread = 0;
    if (unread > 0) this.#side.taken(unread);
  }

  #close(): void {
    this.#localEnded = true;
    if (this.#trailers === NO_TRAILERS) this.#side.sendEnd(this);
    else this.#side.sendHeaders(this, this.#trailers!, true);
    this.#finish();
  }

  #finish(): void {
    this.#drop();
    this.#side.over(this, null);
  }

  #drop(): void {
    this.#giveBack();
    const waited = this.#queued > 0;
    if (waited) this.held?.held(-this.#queued);
    if (this.#queue.length > 0) this.#queue = [];
    this.#queued = 0;
    this.#from = 0;
    if (waited) this.receiver?.drained?.();
  }
}
