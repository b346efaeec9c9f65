/**
 * Reads large bodies without delaying streams. The work is a generator that yields regularly. When it has run for a
 * millisecond, the event loop gets a turn before the work continues.
 */

/** Work with a result. It can be interrupted at each `yield`. */
export type Pieces<R> = Generator<void, R, void>;

/** The clock and the turns of the event loop, as interruptible work needs them. */
export interface EventLoopTurns {
  /** Returns the time of the engine's clock in microseconds. */
  nowUs(): number;
  /**
   * Runs `act` after `us` microseconds, after callbacks that are due earlier. Returns a function that cancels it. Absent: work
   * is not interrupted.
   */
  after?(us: number, act: () => void): () => void;
  /** Counts allocated bytes, for the schedule of garbage collections. */
  consumed?(bytes: number): void;
}

/** Bodies of at most this many bytes are read without interruption, because reading them is too short to delay a step. */
const LARGE_BODY_BYTES = 65_536;
/** Reports whether reading the body must be interruptible: it has more than 64 KiB, or is already decoded to an object. */
export const isLarge = (body: Uint8Array | object): boolean =>
  !(body instanceof Uint8Array) || body.length > LARGE_BODY_BYTES;

/** Microseconds of work after which the event loop gets a turn. This limits the delay of a step. */
const PIECE_US = 1000;
/**
 * Bytes of garbage that are counted for each millisecond of work. Without this count the runtime would collect only after
 * hundreds of megabytes, and mark all live objects at once.
 */
const PIECE_BYTES = 262_144;
/** Number of list items between two checks of the clock. */
export const ITEMS_OF_A_PIECE = 32;

/** Number of array elements between two checks of the clock, for work of a few nanoseconds per element. */
const NUMBERS_OF_A_PIECE = 16_384;

/** Calls `act` for ranges of 16,384 indexes from 0 to `length`, and yields between two ranges. */
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

/** Does the same as `Array.map`, as interruptible work. */
export function* mapped<A, B>(list: readonly A[], change: (item: A, at: number) => B): Pieces<B[]> {
  const out: B[] = [];
  for (const item of list) {
    out.push(change(item, out.length));
    if (out.length % ITEMS_OF_A_PIECE === 0) yield;
  }
  return out;
}

/** Returns the first result of `look` that is not undefined. Returns undefined if every result is undefined. */
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

/** Does the same as `Array.filter` for any iterable, as interruptible work. */
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
/** Functions that resolve the waiting calls of `turn`, in order of the calls. The key is the `after` method of their clock. */
const waitingFor = new WeakMap<After, (() => void)[]>();

/**
 * Resolves after a turn of the event loop. Only one waiting call resolves per turn, so that a step that becomes due waits for
 * only one millisecond of work.
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

/** A queue that limits how many pieces of work run at once. */
export interface WorkLine {
  /** True if new work has to wait. */
  readonly isFull: boolean;
  run<T>(work: () => Promise<T>): Promise<T>;
}

/**
 * Does the same as `inTurns`, but finishes work of at most a millisecond within the call. If the queue `line` is full, the work
 * waits there from the start. Longer work continues there.
 */
export function atOnceOrInTurns<R>(work: Pieces<R>, turns: EventLoopTurns, line?: WorkLine): R | Promise<R> {
  if (line?.isFull) return line.run(() => inTurns(work, turns));
  // Most work has only one piece, which often takes less time than reading the clock.
  const first = work.next();
  if (first.done) return first.value;
  for (const untilUs = turns.nowUs() + PIECE_US; ; ) {
    const { done, value } = work.next();
    if (done) return value;
    if (turns.nowUs() < untilUs) continue;
    const rest = () => turn(turns).then(() => inTurns(work, turns));
    return line === undefined ? rest() : line.run(rest);
  }
}

/** Runs the work to its end and gives the event loop a turn after each millisecond. */
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

/** Gives the event loop a turn after each millisecond of asynchronous work. */
export class Stops {
  #untilUs: number;

  constructor(private readonly turns: EventLoopTurns) {
    this.#untilUs = turns.nowUs() + PIECE_US;
  }

  /**
   * Waits for a turn of the event loop if a millisecond has passed since the last one. Await this call between parts of the
   * work.
   */
  async look(): Promise<void> {
    if (this.turns.nowUs() < this.#untilUs) return;
    await turn(this.turns);
    this.#untilUs = this.turns.nowUs() + PIECE_US;
  }
}
