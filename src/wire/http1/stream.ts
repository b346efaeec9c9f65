/**
 * Sends the events of a stream over HTTP/1. Each event is one HTTP chunk and one send, and nothing is allocated per token. Events
 * between `gather` and `release` share one send, and so do the head and an event that comes at once.
 */
import { overwriteEachTurn } from "../../base/overwritten-buffers.ts";
import type { Lane, LaneEnd } from "../../engine/interface/lanes.ts";
import type { EventSink, HeldBytes, SinkEvents } from "../http/sink.ts";

/** The connection or exchange, as a stream sees it. */
export interface Output {
  /**
   * Sends bytes. Returns how many the socket has not accepted. These are copied; `then` is called when they have left or are
   * lost.
   */
  send(bytes: Uint8Array, length: number, then: DrainListener | null): number;
  /** File descriptor on which a complete chunk may be sent now; negative if that is not allowed. */
  readonly fd: number;
  /** Reports that the answer is complete. */
  finished(): void;
  /** Reports that the answer is broken off. */
  broken(): void;
}

/** Called when bytes that waited for the socket have left, or are lost. */
export interface DrainListener {
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
/** Largest number of UTF-8 bytes per UTF-16 unit of a string. */
const UTF8_MOST = 3;
/** Longest size line of a chunk: eight digits and the line end. */
const SIZE_BYTES = 10;
const END_BYTES = 2;
const LAST = Buffer.from("0\r\n\r\n");
/** Buffer for one chunk. Longer chunks get a buffer of their own. */
const scratch = Buffer.alloc(65_536);
overwriteEachTurn(() => scratch);
const ROOM = scratch.length - SIZE_BYTES - END_BYTES;
/** Buffer for the bytes of the stream that gathers now, sent together. More bytes than it holds leave in several sends. */
const gathered = Buffer.alloc(16_384);
overwriteEachTurn(() => gathered);
let gathering: SocketStream | null = null;
let gatheredBytes = 0;
/** Longest head that may wait for a first event, in bytes. */
const HEAD_MOST = 4096;
/**
 * Turns of the event loop for which a head waits for the first event. An engine without step times makes a token within this many
 * turns, unless the request must queue, because it plans two steps when a request arrives.
 */
const HEAD_TURNS = 4;

/** Holds heads back that wait for the first events of their streams. */
export class LateHeads {
  /** Streams by the turn in which their heads came, the latest first. */
  readonly #streams: SocketStream[][] = Array.from({ length: HEAD_TURNS }, () => []);
  #ordered = false;
  #left = 0;

  /** `later` runs a function in the next turn of the event loop. */
  constructor(private readonly later: (run: () => void) => void) {}

  /** Sends the head of the stream after `HEAD_TURNS` turns of the event loop, if it has not left with an event by then. */
  add(stream: SocketStream): void {
    this.#streams[0]!.push(stream);
    this.#left = HEAD_TURNS;
    this.#order();
  }

  #order(): void {
    if (this.#ordered) return;
    this.#ordered = true;
    this.later(this.#turn);
  }

  readonly #turn = (): void => {
    this.#ordered = false;
    const due = this.#streams.pop()!;
    for (const stream of due) stream.sendHead();
    due.length = 0;
    this.#streams.unshift(due);
    if (--this.#left > 0) this.#order();
  };
}

export class SocketStream implements EventSink, LaneEnd, DrainListener {
  #full = false;
  readonly #owner: SinkEvents;
  readonly #waiting: HeldBytes | null;
  readonly #output: Output;
  /** Bytes that the socket has not accepted. */
  #held = 0;
  /** Events written before the head. The stream reports full after the first, so there are few. */
  #early: string[] = [];
  #state = State.Early;
  #endsEarly: "end" | "reset" | null = null;
  #lanes: Lane[] | null = null;
  /** The head of the answer while it waits for the first event; otherwise "". */
  #head = "";

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
    const isInOrder = this.#head === "" && gathering !== this;
    return isInOrder && this.#state === State.Open && !this.#full ? this.#output.fd : -1;
  }

  onLane(lane: Lane): void {
    this.#lanes ??= [];
    this.#lanes.push(lane);
  }

  write(event: string): boolean {
    if (this.#state === State.Early) {
      this.#early.push(event);
      this.#full = true;
    }
    if (this.#state !== State.Open) return this.#state !== State.Early;
    const isLong = event.length * UTF8_MOST > ROOM;
    const guess = isLong ? Buffer.byteLength(event) : event.length;
    const into = this.#roomFor(isLong ? guess : guess * UTF8_MOST);
    const from = into === gathered ? gatheredBytes : 0;
    const at = putSize(into, guess, from);
    const length = into.write(event, at, "utf8");
    if (length === guess) return this.#chunk(into, at + length);
    // The text is not ASCII, so the size line needs another number, perhaps with more digits.
    const start = putSize(into, length, from);
    return this.#chunk(into, start + into.write(event, start, "utf8"));
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    if (this.#state === State.Early) return this.write(Buffer.concat([before, piece, after]).toString());
    if (this.#state !== State.Open) return true;
    const length = before.length + piece.length + after.length;
    if (length === 0) return !this.#full; // a chunk of nothing would be the last one
    const into = this.#roomFor(length);
    let at = putSize(into, length, into === gathered ? gatheredBytes : 0);
    into.set(before, at);
    at += before.length;
    into.set(piece, at);
    at += piece.length;
    into.set(after, at);
    return this.#chunk(into, at + after.length);
  }

  gather(): void {
    if (gathering === this) return;
    gathering?.release();
    gathering = this;
    if (this.#head === "" || this.#state !== State.Open) return;
    gatheredBytes = gathered.write(this.#head, "latin1");
    this.#head = "";
  }

  release(): void {
    if (gathering !== this) return;
    gathering = null;
    this.#sendGathered();
  }

  end(): void {
    if (this.#state === State.Early) this.#endsEarly ??= "end";
    if (this.#state !== State.Open) return;
    this.gather();
    this.#over(State.Ended);
    if (gatheredBytes + LAST.length > gathered.length) this.#sendGathered();
    gathered.set(LAST, gatheredBytes);
    gatheredBytes += LAST.length;
    this.release();
    this.#output.finished();
  }

  reset(): void {
    if (this.#state === State.Early) this.#endsEarly ??= "reset";
    if (this.#state !== State.Open) return;
    this.release();
    this.sendHead();
    this.#over(State.Reset);
    this.#output.broken();
  }

  /**
   * Begins the answer with a head, in Latin-1. `late`: holds the head back for a first event if none came before; null sends it
   * at once. Called by the exchange, as are all methods below.
   */
  begin(head: string, late: LateHeads | null): void {
    const waited = this.#early;
    const ends = this.#endsEarly;
    this.#state = State.Open;
    this.#full = false;
    this.#early = [];
    this.#head = head;
    if (head.length > HEAD_MOST || (late === null && waited.length === 0)) this.sendHead();
    else if (waited.length === 0 && ends === null) {
      late!.add(this);
      return;
    }
    this.gather();
    for (const event of waited) this.write(event);
    this.release();
    if (ends === "end") this.end();
    else if (ends === "reset") this.reset();
    else if (waited.length > 0 && !this.#full) this.#owner.onDrain();
  }

  /** Sends the head if it is still held back. */
  sendHead(): void {
    const head = this.#head;
    if (head === "" || this.#state !== State.Open) return;
    this.#head = "";
    const into = roomFor(head.length);
    this.#sent(into, into.write(head, "latin1"));
  }

  drained(): void {
    this.#waits(-this.#held);
    this.#full = false;
    if (this.#state === State.Open) this.#owner.onDrain();
  }

  onPartialWrite(rest: Uint8Array): void {
    // Goes through Bun's own write, because Bun reports room in a socket only after a write of its own was partial.
    this.#sent(rest, rest.length);
  }

  /** Sends what is held back and closes the lanes, because the socket is about to be closed. */
  shut(): void {
    this.release();
    this.sendHead();
    this.#shutLanes();
  }

  gone(): void {
    if (this.#state !== State.Early && this.#state !== State.Open) return;
    this.#over(State.Gone);
    this.#owner.onGone();
  }

  /** Returns the buffer for the next chunk of `length` bytes: the gathering buffer if the chunk fits there. */
  #roomFor(length: number): Buffer {
    if (gathering !== this) {
      if (this.#head !== "") this.sendHead();
      return roomFor(length);
    }
    const most = gathered.length - length - SIZE_BYTES - END_BYTES;
    if (gatheredBytes > most) this.#sendGathered();
    return most >= 0 ? gathered : roomFor(length);
  }

  #chunk(into: Buffer, end: number): boolean {
    into[end] = CR;
    into[end + 1] = LF;
    if (into !== gathered) return this.#sent(into, end + END_BYTES);
    gatheredBytes = end + END_BYTES;
    return !this.#full;
  }

  #sendGathered(): void {
    const length = gatheredBytes;
    gatheredBytes = 0;
    if (length > 0 && this.#state !== State.Gone) this.#sent(gathered, length);
  }

  #sent(bytes: Uint8Array, length: number): boolean {
    const left = this.#output.send(bytes, length, this);
    if (left === 0) return !this.#full;
    this.#full = true;
    this.#shutLanes();
    this.#waits(left);
    return false;
  }

  #over(state: State): void {
    this.#state = state;
    this.#shutLanes();
  }

  #shutLanes(): void {
    if (this.#lanes !== null) for (const lane of this.#lanes) lane.shut();
  }

  #waits(bytes: number): void {
    if (bytes === 0) return;
    this.#held += bytes;
    this.#waiting?.held(bytes);
  }
}

/** Returns a buffer for a chunk of `length` bytes with its framing. */
export function roomFor(length: number): Buffer {
  return length <= ROOM ? scratch : Buffer.alloc(length + SIZE_BYTES + END_BYTES);
}

/** Writes the size line of a chunk at `from`, in Python's `%x`. Returns the offset after it. */
export function putSize(into: Buffer, length: number, from = 0): number {
  let end = from + 1;
  for (let rest = length >>> 4; rest > 0; rest >>>= 4) end++;
  for (let i = end - 1, rest = length; i >= from; i--, rest >>>= 4) {
    const digit = rest & 15;
    into[i] = digit < 10 ? 48 + digit : 87 + digit;
  }
  into[end] = CR;
  into[end + 1] = LF;
  return end + END_BYTES;
}
