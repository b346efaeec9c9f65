/** How do the events of one stream reach the client? One HTTP chunk and one write each; nothing is made per token. */
import type { Lane, LaneEnd } from "../../engine/interface/lanes.ts";
import type { EventSink, HeldBytes, SinkEvents } from "../http/sink.ts";

/** Where the bytes go. */
export interface Output {
  /** Gives how many bytes the socket has not taken; a copy is kept, and `then` told when it has left, or never will. */
  send(bytes: Uint8Array, length: number, then: Drained | null): number;
  /** Number of the socket, where what stands in a chunk may be sent on it now; else negative. */
  readonly fd: number;
  /** The answer is complete. */
  finished(): void;
  /** The answer is broken off. */
  broken(): void;
}

/** Told when what it sent has left, or never will. */
export interface Drained {
  drained(): void;
}

enum State {
  /** The head has not been sent. */
  Early,
  Open,
  Ended,
  Reset,
  Gone,
}

const CR = 13;
const LF = 10;
/** Eight digits and the line's end. */
const SIZE_BYTES = 10;
const END_BYTES = 2;
const LAST = Buffer.from("0\r\n\r\n");
/** Chunks are put together here; longer ones get a place of their own. */
const scratch = Buffer.alloc(65_536);
const ROOM = scratch.length - SIZE_BYTES - END_BYTES;

export class SocketStream implements EventSink, LaneEnd, Drained {
  #full = false;
  readonly #owner: SinkEvents;
  readonly #waiting: HeldBytes | null;
  readonly #output: Output;
  /** Bytes that the socket has not taken. */
  #held = 0;
  /** Events from before the head. The sink calls itself full from the first one on, so they stay few. */
  #early: string[] = [];
  #state = State.Early;
  #endsEarly: "end" | "reset" | null = null;
  #lanes: Lane[] | null = null;

  constructor(owner: SinkEvents, waiting: HeldBytes | null, output: Output) {
    this.#owner = owner;
    this.#waiting = waiting;
    this.#output = output;
  }

  get full(): boolean {
    return this.#full;
  }

  get laneEnd(): LaneEnd {
    return this;
  }

  get fd(): number {
    return this.#state === State.Open && !this.#full ? this.#output.fd : -1;
  }

  led(lane: Lane): void {
    this.#lanes ??= [];
    this.#lanes.push(lane);
  }

  write(event: string): boolean {
    if (this.#state === State.Early) {
      this.#early.push(event);
      this.#full = true;
    }
    if (this.#state !== State.Open) return this.#state !== State.Early;
    const length = Buffer.byteLength(event);
    const into = roomFor(length);
    const at = putSize(into, length);
    into.write(event, at, "utf8");
    return this.#chunk(into, at + length);
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    if (this.#state === State.Early) return this.write(Buffer.concat([before, piece, after]).toString());
    if (this.#state !== State.Open) return true;
    const length = before.length + piece.length + after.length;
    if (length === 0) return !this.#full; // a chunk of nothing would be the last one
    const into = roomFor(length);
    let at = putSize(into, length);
    into.set(before, at);
    at += before.length;
    into.set(piece, at);
    at += piece.length;
    into.set(after, at);
    return this.#chunk(into, at + after.length);
  }

  end(): void {
    if (this.#state === State.Early) this.#endsEarly ??= "end";
    if (this.#state !== State.Open) return;
    this.#over(State.Ended);
    this.#sent(LAST, LAST.length);
    this.#output.finished();
  }

  reset(): void {
    if (this.#state === State.Early) this.#endsEarly ??= "reset";
    if (this.#state !== State.Open) return;
    this.#over(State.Reset);
    this.#output.broken();
  }

  /** For the exchange, as all below: the head has been sent. */
  begin(): void {
    const waited = this.#early;
    const ends = this.#endsEarly;
    this.#state = State.Open;
    this.#full = false;
    this.#early = [];
    for (const event of waited) this.write(event);
    if (ends === "end") this.end();
    else if (ends === "reset") this.reset();
    else if (waited.length > 0 && !this.#full) this.#owner.onDrain();
  }

  drained(): void {
    this.#waits(-this.#held);
    this.#full = false;
    if (this.#state === State.Open) this.#owner.onDrain();
  }

  cameShort(rest: Uint8Array): void {
    // Bun tells of room in a socket only after a write of its own came short.
    this.#sent(rest, rest.length);
  }

  /** Nothing is sent beside it: its socket is about to be closed. */
  shut(): void {
    for (const lane of this.#lanes ?? []) lane.shut();
  }

  gone(): void {
    if (this.#state !== State.Early && this.#state !== State.Open) return;
    this.#over(State.Gone);
    this.#owner.onGone();
  }

  #chunk(into: Buffer, end: number): boolean {
    into[end] = CR;
    into[end + 1] = LF;
    return this.#sent(into, end + END_BYTES);
  }

  #sent(bytes: Uint8Array, length: number): boolean {
    const left = this.#output.send(bytes, length, this);
    if (left === 0) return !this.#full;
    this.#full = true;
    this.shut();
    this.#waits(left);
    return false;
  }

  #over(state: State): void {
    this.#state = state;
    this.shut();
  }

  #waits(bytes: number): void {
    if (bytes === 0) return;
    this.#held += bytes;
    this.#waiting?.held(bytes);
  }
}

/** Where a chunk of so many bytes is put together, with its lines. */
export function roomFor(length: number): Buffer {
  return length <= ROOM ? scratch : Buffer.alloc(length + SIZE_BYTES + END_BYTES);
}

/** The line before a chunk, with the digits that Python's `%x` writes; gives where it ends. */
export function putSize(into: Buffer, length: number): number {
  let end = 1;
  for (let rest = length >>> 4; rest > 0; rest >>>= 4) end++;
  for (let i = end - 1, rest = length; i >= 0; i--, rest >>>= 4) {
    const digit = rest & 15;
    into[i] = digit < 10 ? 48 + digit : 87 + digit;
  }
  into[end] = CR;
  into[end + 1] = LF;
  return end + END_BYTES;
}
