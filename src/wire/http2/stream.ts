/**
 * One stream of an HTTP/2 connection. Passes received data on, and queues sent data until the windows permit it. The end of the
 * answer waits for the data.
 */
import type { HeldBytes } from "../http/sink.ts";
import { FIRST_WINDOW, FRAME_BYTES_MOST } from "./frames.ts";

/** The owner of a stream, which receives its data and events. It may keep the bytes. */
export interface StreamReceiver {
  data(bytes: Uint8Array): void;
  /** The client has sent the whole request. */
  ended(): void;
  /** The client reset the stream or left. Comes at most once, as the last call. Nothing more can be sent. */
  gone(): void;
  /** All queued data has left, or is lost. */
  drained?(): void;
}

/** Receiver of a request that was answered already: ignores the rest of the request. */
export const IGNORE: StreamReceiver = { data() {}, ended() {}, gone() {} };

/** The connection, as a stream sees it. */
export interface StreamSide {
  /** Window with which each stream begins, as the client's settings currently say. */
  readonly streamWindow: number;
  /** Sends data. Returns how many bytes left: fewer if a window is used up or the kernel accepts no more. */
  sendData(stream: Http2Stream, bytes: Buffer, from: number, to: number): number;
  sendHeaders(stream: Http2Stream, block: Uint8Array, ends: boolean): void;
  /** Ends the stream without trailers. */
  sendEnd(stream: Http2Stream): void;
  /** Calls the stream's `pump` when its window and the socket have room. */
  wait(stream: Http2Stream): void;
  /** Lets the client send that many more bytes on the stream. */
  credit(stream: Http2Stream, bytes: number): void;
  /** Reports that received bytes are no longer kept, so that the client may send as many again on any stream. */
  taken(bytes: number): void;
  /** Reports that the stream is over. With a `code` the client gets a reset. */
  over(stream: Http2Stream, code: number | null): void;
}

/**
 * Receive window of a stream once the first data was read. Before that it is the default of HTTP/2, so that unread streams do not
 * use up the window of their connection.
 */
const STREAM_WINDOW = 1_048_576;
const NO_TRAILERS = new Uint8Array();

export class Http2Stream {
  /**
   * Bytes that may be sent, relative to the initial window: bytes that the client added, minus bytes sent. A change of the
   * initial window thereby changes the windows of all streams.
   */
  extra = 0;
  /** Bytes that the client may still send. */
  room = FIRST_WINDOW;
  receiver: StreamReceiver | null = null;
  /** Counts the queued bytes. Must be set before any are queued. */
  held: HeldBytes | null = null;
  /** True once the client has sent the whole request. */
  remoteEnded = false;
  /** Length of the body according to the head; null if it does not say. */
  expects: number | null = null;
  /** Bytes of the body received so far. */
  body = 0;
  #queue: Buffer[] = [];
  /** Number of bytes of the first queued part that have left. */
  #from = 0;
  #queued = 0;
  #trailers: Uint8Array | null = null;
  #localEnded = false;
  /** Size of the receive window when it is full. */
  #span = FIRST_WINDOW;
  /** Bytes received since the window was last enlarged. */
  #owed = 0;
  /** Bytes received while the stream is paused. They count against the connection's window until it resumes. */
  #unread = 0;
  #paused = false;

  constructor(
    readonly id: number,
    private readonly side: StreamSide,
  ) {}

  /** Bytes that may be sent. Below 0 if the client has made the window smaller than the bytes already sent. */
  get window(): number {
    return this.side.streamWindow + this.extra;
  }

  /** Bytes that wait to be sent. */
  get queued(): number {
    return this.#queued;
  }

  /** True once nothing more can be written. */
  get ended(): boolean {
    return this.#localEnded || this.#trailers !== null;
  }

  /** Sends a header block. `ends`: true if the stream ends with it. */
  head(block: Uint8Array, ends: boolean): void {
    if (this.ended) return;
    this.#localEnded = ends;
    this.side.sendHeaders(this, block, ends);
    if (ends) this.#finish();
  }

  /** Sends the first `length` bytes. Copies the bytes that must wait, unless the caller gives them away (`isGivenAway`). */
  write(bytes: Buffer, length = bytes.length, isGivenAway = false): void {
    if (this.ended) return;
    const sent = this.#queued > 0 ? 0 : this.side.sendData(this, bytes, 0, length);
    if (sent === length) return;
    const rest = bytes.subarray(sent, length);
    // `Buffer.from` copies; a Buffer's `slice` would not.
    this.#queue.push(isGivenAway ? rest : Buffer.from(rest));
    this.#queued += length - sent;
    this.held?.held(length - sent);
    this.side.wait(this);
  }

  /** Ends the stream after the queued data. `block`: encoded trailers, if any. */
  end(block: Uint8Array = NO_TRAILERS): void {
    if (this.ended) return;
    this.#trailers = block;
    if (this.#queued === 0) this.#close();
  }

  /** Resets the stream and drops the queued data. */
  reset(code: number): void {
    if (this.#localEnded) return;
    this.#localEnded = true;
    this.#drop();
    this.side.over(this, code);
  }

  /** Stops enlarging the receive window, so that the client must stop when the window is full. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.passedOn();
  }

  /** Counts received bytes. Returns false if they exceed the window. Called by the connection. */
  came(bytes: number): boolean {
    this.room -= bytes;
    this.#owed += bytes;
    this.#unread += bytes;
    return this.room >= 0;
  }

  /** Enlarges the receive window after data was passed on, unless the stream is paused. Called by the connection. */
  passedOn(): void {
    if (this.#paused) return;
    this.#giveBack();
    if (this.remoteEnded || this.#localEnded || this.#owed < this.#span / 2) return;
    const more = this.#owed + STREAM_WINDOW - this.#span;
    this.#span = STREAM_WINDOW;
    this.room += more;
    this.#owed = 0;
    this.side.credit(this, more);
  }

  /** Sends one frame of the queued data, or the end after it. Called by the connection. */
  pump(): void {
    const first = this.#queue[0];
    if (first !== undefined) {
      const to = Math.min(first.length, this.#from + FRAME_BYTES_MOST);
      const sent = this.side.sendData(this, first, this.#from, to);
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

  /** Ends the stream, because the client has left or reset it. Called by the connection. */
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
    if (unread > 0) this.side.taken(unread);
  }

  #close(): void {
    this.#localEnded = true;
    if (this.#trailers === NO_TRAILERS) this.side.sendEnd(this);
    else this.side.sendHeaders(this, this.#trailers!, true);
    this.#finish();
  }

  #finish(): void {
    this.#drop();
    this.side.over(this, null);
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
