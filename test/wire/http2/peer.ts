/**
 * A client of one connection, without sockets. It sends frames, splits the server's bytes into frames, and checks them against
 * its windows.
 */

import { OpenCount } from "../../../src/wire/http/open-count.ts";
import { type Http2Application, Http2Connection } from "../../../src/wire/http2/connection.ts";
import { FIRST_WINDOW, FRAME_BYTES_MOST, FrameFlag, FrameType, PREFACE } from "../../../src/wire/http2/frames.ts";
import { encodeFields, type HeaderField, HpackDecoder } from "../../../src/wire/http2/hpack.ts";
import { PingRules } from "../../../src/wire/http2/pings.ts";
import type { Http2Stream, StreamReceiver } from "../../../src/wire/http2/stream.ts";

export interface SeenFrame {
  readonly type: number;
  readonly flags: number;
  readonly id: number;
  readonly payload: Buffer;
}

export const frame = (type: number, flags: number, id: number, payload: Uint8Array = Buffer.alloc(0)): Buffer => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
};

export const settings = (...pairs: readonly (readonly [number, number])[]): Buffer => {
  const payload = Buffer.alloc(pairs.length * 6);
  for (const [at, [id, value]] of pairs.entries()) {
    payload.writeUInt16BE(id, at * 6);
    payload.writeUInt32BE(value, at * 6 + 2);
  }
  return frame(FrameType.Settings, 0, 0, payload);
};

export const windowUpdate = (id: number, more: number): Buffer => {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(more);
  return frame(FrameType.WindowUpdate, 0, id, payload);
};

export const REQUEST: readonly HeaderField[] = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/a"],
  [":authority", "x"],
];

/** A request's header block, in as many frames as it needs. */
export function headers(id: number, ends = false, fields: readonly HeaderField[] = REQUEST): Buffer {
  const block = encodeFields(fields);
  const frames: Buffer[] = [];
  for (let from = 0; from === 0 || from < block.length; from += FRAME_BYTES_MOST) {
    const last = from + FRAME_BYTES_MOST >= block.length ? FrameFlag.EndHeaders : 0;
    const type = from === 0 ? FrameType.Headers : FrameType.Continuation;
    const flags = last | (from === 0 && ends ? FrameFlag.EndStream : 0);
    frames.push(frame(type, flags, id, block.subarray(from, from + FRAME_BYTES_MOST)));
  }
  return Buffer.concat(frames);
}

/** A receiver that records the events of its stream in order. */
export class Owner implements StreamReceiver {
  readonly told: string[] = [];
  readonly stream: Http2Stream;
  bytes = 0;

  constructor(stream: Http2Stream) {
    this.stream = stream;
  }

  data(bytes: Uint8Array): void {
    this.bytes += bytes.length;
    this.told.push(`data ${bytes.length}`);
  }
  ended(): void {
    this.told.push("ended");
  }
  gone(): void {
    this.told.push("gone");
  }
}

export class Peer {
  readonly connection: Http2Connection;
  readonly frames: SeenFrame[] = [];
  readonly owners = new Map<number, Owner>();
  /** Data by stream, in the parts in which it arrived. */
  readonly data = new Map<number, Buffer[]>();
  readonly ended = new Set<number>();
  done = false;
  cut = false;
  /** True while the server has stopped reading from this client. */
  paused = false;
  /** True while no stream is open. */
  rests = true;
  refused = 0;
  /** Bytes that were reported of long header blocks. */
  decodedBytes = 0;
  /** Bytes that the kernel accepts until `drain` raises it. */
  takes = Number.POSITIVE_INFINITY;
  window = FIRST_WINDOW;
  initial = FIRST_WINDOW;
  nowUs = 0;
  readonly windows = new Map<number, number>();
  /** Sum of all reductions of the initial window. Data under way during a reduction may exceed the window. */
  #lowered = 0;
  readonly #decoder = new HpackDecoder();
  #soon: (() => void)[] = [];
  #bytes = Buffer.alloc(0);

  /** Without an application, each stream has an `Owner`, which records its events. */
  constructor(application?: Http2Application, openStreams = new OpenCount(() => {})) {
    const owned: Http2Application = {
      open: (stream) => {
        const owner = new Owner(stream);
        this.owners.set(stream.id, owner);
        return owner;
      },
    };
    this.connection = new Http2Connection({
      application: application ?? owned,
      pings: new PingRules({ leastIntervalMs: 300_000, strikesMost: 2, withoutCalls: false }, () => this.nowUs),
      write: (bytes, from, length) => {
        const taken = Math.min(length, this.takes);
        if (this.takes !== Number.POSITIVE_INFINITY) this.takes -= taken;
        this.#bytes = Buffer.concat([this.#bytes, bytes.subarray(from, from + taken)]);
        return taken;
      },
      later: (run) => this.#soon.push(run),
      failed: () => {},
      heard: () => {},
      decoded: (bytes) => {
        this.decodedBytes += bytes;
      },
      openStreams,
      acknowledged: () => {},
      settled: () => {},
      address: "127.0.0.1",
      port: 1,
      rests: (idle) => {
        this.rests = idle;
      },
      refuseNext: (connections) => {
        this.refused += connections;
      },
      done: () => {
        this.done = true;
      },
      cut: () => {
        this.cut = true;
      },
      pause: () => {
        this.paused = true;
      },
      resume: () => {
        this.paused = false;
      },
      queue: () => this.#soon.push(() => this.connection.turn()),
      nowUs: () => this.nowUs,
    });
  }

  /** Sends the preface and settings. */
  greet(...pairs: readonly (readonly [number, number])[]): this {
    for (const [id, value] of pairs) if (id === 4) this.initial = value;
    return this.send(PREFACE, settings(...pairs));
  }

  send(...parts: readonly Uint8Array[]): this {
    this.connection.data(Buffer.concat(parts));
    this.turn();
    return this;
  }

  /** Runs the work that was put off until the end of the turn. It may put off more. */
  oneTurn(): void {
    for (const run of this.#soon.splice(0)) run();
  }

  /** Runs turns until no work is put off, then reads the written frames. */
  turn(): void {
    while (this.#soon.length > 0) this.oneTurn();
    this.see();
  }

  /** Splits the bytes that the connection wrote into frames. */
  see(): void {
    while (this.#bytes.length >= 9) {
      const length = this.#bytes.readUIntBE(0, 3);
      if (this.#bytes.length < 9 + length) return;
      const id = this.#bytes.readUInt32BE(5);
      this.#see({ type: this.#bytes[3]!, flags: this.#bytes[4]!, id, payload: this.#bytes.subarray(9, 9 + length) });
      this.#bytes = this.#bytes.subarray(9 + length);
    }
  }

  drain(takes: number): void {
    this.takes = takes;
    this.connection.drain();
    this.turn();
  }

  /** Opens a stream whose window has the client's initial size. */
  open(id: number, ends = false): Owner {
    this.windows.set(id, this.initial);
    this.send(headers(id, ends));
    return this.owners.get(id)!;
  }

  widen(id: number, more: number): void {
    if (id === 0) this.window += more;
    else this.windows.set(id, (this.windows.get(id) ?? 0) + more);
    this.send(windowUpdate(id, more));
  }

  /** Changes the initial window, and with it those of open streams. */
  rewindow(initial: number): void {
    for (const [id, window] of this.windows) this.windows.set(id, window + initial - this.initial);
    this.#lowered += Math.max(0, this.initial - initial);
    this.initial = initial;
    this.send(settings([4, initial]));
  }

  of(type: number): SeenFrame[] {
    return this.frames.filter((one) => one.type === type);
  }

  /** Code of the GOAWAY, or null without one. */
  get goAway(): number | null {
    return this.of(FrameType.GoAway)[0]?.payload.readUInt32BE(4) ?? null;
  }

  /** Codes of resets by stream. */
  get resets(): Record<number, number> {
    return Object.fromEntries(this.of(FrameType.RstStream).map(({ id, payload }) => [id, payload.readUInt32BE(0)]));
  }

  fields(id: number): [string, string][] {
    return this.of(FrameType.Headers).flatMap((one) => (one.id === id ? this.#decoded(one) : []));
  }
  readonly #read = new Map<SeenFrame, [string, string][]>();
  #decoded(one: SeenFrame): [string, string][] {
    return this.#read.get(one)!;
  }

  #see(one: SeenFrame): void {
    const { type, flags, id, payload } = one;
    this.frames.push(one);
    if (type === FrameType.Headers) this.#read.set(one, this.#decoder.decode(payload) as [string, string][]);
    if (type === FrameType.Data || type === FrameType.Headers) {
      if (this.ended.has(id)) throw new Error(`a frame of stream ${id} behind its end`);
      if (flags & FrameFlag.EndStream) this.ended.add(id);
    }
    if (type !== FrameType.Data) return;
    this.window -= payload.length;
    this.windows.set(id, (this.windows.get(id) ?? this.initial) - payload.length);
    if (this.window < 0) throw new Error("more data than the connection's window has room for");
    if (this.windows.get(id)! < -this.#lowered)
      throw new Error(`more data than the window of stream ${id} has room for`);
    this.data.set(id, [...(this.data.get(id) ?? []), Buffer.from(payload)]);
  }
}
