/**
 * Reads large bodies without delaying streams. The work is a generator that yields regularly. When a piece has used its time,
 * the event loop turns before the next piece.
 */

/** Work with a result, which can be interrupted at each `yield`. */
export type Pieces<R> = Generator<void, R, void>;

/** Gives work the time, and turns of the event loop. */
export interface EventLoopTurns {
  /** Returns the time of the engine's clock. */
  nowUs(): number;
  /** Runs `act` after `us` microseconds, after callbacks that are due earlier. Returns a function that cancels it. */
  after?(us: number, act: () => void): () => void;
  /** Notes that this many bytes were allocated, for the schedule of garbage collections. */
  consumed?(bytes: number): void;
}

/** Bodies of at most this size are read in one go, because that is too short to delay a step. */
const LARGE_BODY_BYTES = 65_536;
/** Reports whether to work in pieces: above 64 KiB, or already decoded. */
export const isLarge = (body: Uint8Array | object): boolean =>
  !(body instanceof Uint8Array) || body.length > LARGE_BODY_BYTES;

/** Time after which the event loop turns, which limits the delay of a step. */
const PIECE_US = 1000;
/**
 * Bytes of garbage that a piece counts as. Otherwise the runtime would collect only after hundreds of megabytes, and mark
 * all kept objects at once.
 */
const PIECE_BYTES = 262_144;
/** List items between two checks of the clock. */
export const ITEMS_OF_A_PIECE = 32;

/** Numbers between two checks of the clock. Each takes a few nanoseconds. */
const NUMBERS_OF_A_PIECE = 16_384;

/** Calls `act` with the indexes from 0 to `length` in ranges of 16,384, and yields between two ranges. */
export function* byRuns(length: number, act: (from: number, to: number) => void): Pieces<void> {
  for (let from = 0; from < length; from += NUMBERS_OF_A_PIECE) {
    if (from > 0) yield;
    act(from, Math.min(from + NUMBERS_OF_A_PIECE, length));
  }
}

/** Runs the work to its end without interruption. */
export function atOnce<R>(work: Pieces<R>): R {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Like `Array.map`, in pieces. */
export function* mapped<A, B>(list: readonly A[], change: (item: A, at: number) => B): Pieces<B[]> {
  const out: B[] = [];
  for (const item of list) {
    out.push(change(item, out.length));
    if (out.length % ITEMS_OF_A_PIECE === 0) yield;
  }
  return out;
}

/** Returns the first result of `look` that is not undefined, else undefined. */
export function* firstOf<A, B>(
  list: readonly A[],
  look: (item: A, at: number) => B | undefined,
): Pieces<B | undefined> {
  for (let at = 0; at < list.length; at++) {
    const found = look(list[at]!, at);
    if (found !== undefined) return found;
    if (at % ITEMS_OF_A_PIECE === 0) yield;
  }
  return undefined;
}

/** Like `Array.filter` for any iterable, in pieces. */
export function* kept<A>(items: Iterable<A>, keeps: (item: A) => boolean): Pieces<A[]> {
  const out: A[] = [];
  let seen = 0;
  for (const item of items) {
    if (keeps(item)) out.push(item);
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
  }
  return out;
}

type After = NonNullable<EventLoopTurns["after"]>;
/** Work that waits for a turn, by the clock. */
const waitingFor = new WeakMap<After, (() => void)[]>();

/**
 * Resolves after a turn of the event loop. Each earlier caller gets a turn of its own before, so that a step that comes due
 * waits for only one piece of work.
 */
export async function turn({ after }: EventLoopTurns): Promise<void> {
  if (after === undefined) return;
  const queue = waitingFor.get(after) ?? [];
  waitingFor.set(after, queue);
  const next = () => {
    queue.shift()!();
    if (queue.length > 0) after(0, next);
  };
  return new Promise((go) => {
    if (queue.push(go) === 1) after(0, next);
  });
}

/** A queue that limits how much work runs at once. */
export interface WorkLine {
  /** True if new work would have to wait. */
  readonly isFull: boolean;
  run<T>(work: () => Promise<T>): Promise<T>;
}

/**
 * Like `inTurns`, but finishes work of at most one piece at once, unless the line is full. Longer work then waits in
 * the line.
 */
export function atOnceOrInTurns<R>(work: Pieces<R>, turns: EventLoopTurns, line?: WorkLine): R | Promise<R> {
  if (line?.isFull) return line.run(() => inTurns(work, turns));
  for (const untilUs = turns.nowUs() + PIECE_US; ; ) {
    const { done, value } = work.next();
    if (done) return value;
    if (turns.nowUs() < untilUs) continue;
    const rest = () => turn(turns).then(() => inTurns(work, turns));
    return line === undefined ? rest() : line.run(rest);
  }
}

/** Runs the work with turns of the event loop between its pieces. */
export async function inTurns<R>(work: Pieces<R>, turns: EventLoopTurns): Promise<R> {
  for (let untilUs = turns.nowUs() + PIECE_US; ; ) {
    const { done, value } = work.next();
    if (done) return value;
    if (turns.nowUs() < untilUs) continue;
    turns.consumed?.(PIECE_BYTES);
    await turn(turns);
    untilUs = turns.nowUs() + PIECE_US;
  }
}

/** Lets asynchronous work give the event loop turns after each piece of time. */
export class Stops {
  #untilUs: number;

  constructor(private readonly turns: EventLoopTurns) {
    this.#untilUs = turns.nowUs() + PIECE_US;
  }

  /** Await it between parts of the work. */
  async look(): Promise<void> {
    if (this.turns.nowUs() < this.#untilUs) return;
    await turn(this.turns);
    this.#untilUs = this.turns.nowUs() + PIECE_US;
  }
}
