/**
 * How is a large body read without holding up the streams? In pieces: the work is a generator that stops now and then, and
 * where a piece has taken its time the event loop turns before the next one.
 */

/** Work that gives a result; it may be left at each `yield`. */
export type Pieces<R> = Generator<void, R, void>;

/** Where the time between pieces comes from. */
export interface EventLoopTurns {
  /** The engine's clock. */
  nowUs(): number;
  /** Runs `act` so much later, behind what is due before. */
  after?(us: number, act: () => void): () => void;
  /** So many bytes are garbage soon, or what is kept of them is not new any more. */
  consumed?(bytes: number): void;
}

/** Work on less than this, or what is no bytes any more, is too short to be seen in a step's lateness. */
const LARGE_BODY_BYTES = 65_536;
export const isLarge = (body: Uint8Array | object): boolean =>
  !(body instanceof Uint8Array) || body.length > LARGE_BODY_BYTES;

/** A step that comes due meanwhile is late by no more, beside what one piece takes. */
const PIECE_US = 1000;
/**
 * A piece counts as so many bytes of garbage. The host would collect after hundreds of megabytes of a large body, and mark
 * all that is kept of them in one go.
 */
const PIECE_BYTES = 262_144;
/** Items of a list between two looks at the clock. */
export const ITEMS_OF_A_PIECE = 32;

/** Numbers of a list between two looks at the clock: each takes some nanoseconds. */
const NUMBERS_OF_A_PIECE = 16_384;

/** Has a long list of numbers gone through, `act` from one place to another at a time. */
export function* byRuns(length: number, act: (from: number, to: number) => void): Pieces<void> {
  for (let from = 0; from < length; from += NUMBERS_OF_A_PIECE) {
    if (from > 0) yield;
    act(from, Math.min(from + NUMBERS_OF_A_PIECE, length));
  }
}

/** Nobody waits: all of it in one go. */
export function atOnce<R>(work: Pieces<R>): R {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** `Array.map`. */
export function* mapped<A, B>(list: readonly A[], change: (item: A, at: number) => B): Pieces<B[]> {
  const out: B[] = [];
  for (const item of list) {
    out.push(change(item, out.length));
    if (out.length % ITEMS_OF_A_PIECE === 0) yield;
  }
  return out;
}

/** The first that is found of what `look` gives, undefined where there is none. */
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

/** `Array.filter`, of anything that is gone through once. */
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
/** Who waits for a turn, by the clock that gives it. */
const waitingFor = new WeakMap<After, (() => void)[]>();

/**
 * Settles when the event loop has turned, and those that waited before have had a turn each: a step that comes due
 * waits for one piece of work, however many are at work.
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

/** Runs work when others in a line leave it room. */
export interface WorkLine {
  /** Others wait, or would. */
  readonly isFull: boolean;
  run<T>(work: () => Promise<T>): Promise<T>;
}

/**
 * As `inTurns`, but work that takes no more than one piece is done at once, unless the line is full. What is left then waits in
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

/** With turns of the event loop between. */
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

/** For work that waits for other things as well: the event loop turns where a piece of it has taken its time. */
export class Stops {
  readonly #turns: EventLoopTurns;
  #untilUs: number;

  constructor(turns: EventLoopTurns) {
    this.#turns = turns;
    this.#untilUs = turns.nowUs() + PIECE_US;
  }

  /** To be awaited between two things. */
  async look(): Promise<void> {
    if (this.#turns.nowUs() < this.#untilUs) return;
    await turn(this.#turns);
    this.#untilUs = this.#turns.nowUs() + PIECE_US;
  }
}
