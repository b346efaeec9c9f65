/**
 * Draws answers for which some tokens are forced or forbidden. Repeats the usual draw if it hits a forbidden token, or draws
 * among the allowed tokens if they are few. Tokens depend only on the seed and are drawn when they are read.
 */

import { mix } from "../../base/random.ts";
import { type AnswerTables, nextToken } from "./answers.ts";

/** Salt that makes the draw among few tokens independent of the usual one. */
const CHOICE_SALT = 0x3c6ef372;
/** Repeated draws for a forbidden token before the next higher ID is taken. */
const DRAWS = 64;

/** The part of a set of IDs that is used. */
type Ids = Pick<ReadonlySet<number>, "has" | "size">;

/** The tokens that an answer may have. */
export interface TokenRules {
  /** The only allowed IDs, at least one. Null allows all. */
  readonly only: readonly number[] | null;
  /** Forbidden IDs. Ignored if they would forbid all of `only`. */
  readonly never: Ids;
  /** Token sequences that must not occur: the last token is forbidden after the others. */
  readonly neverAfter: readonly Uint32Array[];
  /** IDs that end the answer. */
  readonly ends: Ids;
  /** Position (from 0) from which `ends` are allowed. */
  readonly endsFrom: number;
}

/** Prepared rules, which all choices of a request share. */
export interface Steering extends TokenRules {
  /** `only` for positions before `endsFrom`. */
  readonly onlyFirst: readonly number[] | null;
  readonly vocabularySize: number;
}

/** Prepares rules once per request, because lists may have the whole vocabulary, and a request thousands of choices. */
export function steer(rules: TokenRules, vocabularySize: number): Steering {
  const only = allowedIds(rules, vocabularySize);
  return { ...rules, only, onlyFirst: only && orAll(only, (id) => !rules.ends.has(id)), vocabularySize };
}

/** An answer of `length` tokens, which are drawn when they are read in order. */
export class SteeredAnswer {
  /** The last IDs before `#at`, as many as the longest forbidden sequence needs. */
  #recent: number[] = [];
  readonly #lookBack: number;
  #at = 0;

  constructor(
    private readonly tables: AnswerTables,
    private readonly seed: number,
    readonly length: number,
    private readonly steering: Steering,
  ) {
    this.#lookBack = Math.max(0, ...steering.neverAfter.map((words) => words.length - 1));
  }

  /** Returns the IDs from `from` to `to - 1` or the end. Reading backwards draws the answer again from its start. */
  subarray(from: number, to: number): Uint32Array {
    const end = Math.min(to, this.length);
    if (from >= end) return new Uint32Array(0);
    if (from < this.#at) {
      this.#at = 0;
      this.#recent = [];
    }
    while (this.#at < from) this.#next();
    return Uint32Array.from({ length: end - from }, () => this.#next());
  }

  #next(): number {
    const position = this.#at++;
    const id = this.#draw(position);
    if (this.#lookBack > 0) {
      this.#recent.push(id);
      if (this.#recent.length > this.#lookBack) this.#recent.shift();
    }
    return id;
  }

  #draw(position: number): number {
    const { endsFrom, vocabularySize } = this.steering;
    const only = position < endsFrom ? this.steering.onlyFirst : this.steering.only;
    let id = this.#candidate(only, 0, position);
    for (let draw = 1; draw <= DRAWS && this.#forbidden(id, position); draw++)
      id = this.#candidate(only, draw, position);
    if (only !== null) return id;
    const last = id;
    while (this.#forbidden(id, position)) {
      id = (id + 1) % vocabularySize;
      // All IDs are forbidden.
      if (id === last) return id;
    }
    return id;
  }

  #candidate(only: readonly number[] | null, draw: number, position: number): number {
    const seed = (this.seed + draw) | 0;
    if (only === null) return nextToken(this.tables, seed, position);
    return only[Math.floor((mix(seed ^ CHOICE_SALT, position) * only.length) / 2 ** 32)]!;
  }

  #forbidden(id: number, position: number): boolean {
    const { never, ends, endsFrom, neverAfter } = this.steering;
    if (never.has(id) || (position < endsFrom && ends.has(id))) return true;
    return neverAfter.some((words) => words.at(-1) === id && this.#follows(words));
  }

  /** Reports whether the last IDs are those of `words`, without its last one. */
  #follows(words: Uint32Array): boolean {
    const before = words.length - 1;
    const from = this.#recent.length - before;
    if (from < 0) return false;
    for (let i = 0; i < before; i++) if (this.#recent[from + i] !== words[i]) return false;
    return true;
  }
}

/** Returns the allowed IDs if some are forced or most are forbidden, else null. */
function allowedIds({ only, never }: TokenRules, vocabularySize: number): readonly number[] | null {
  if (only !== null) return orAll(only, (id) => !never.has(id));
  if (never.size < vocabularySize / 2) return null;
  const rest = Array.from({ length: vocabularySize }, (_, id) => id).filter((id) => !never.has(id));
  return rest.length > 0 ? rest : null;
}

/** Returns the wanted IDs, or all if none is wanted. */
function orAll(ids: readonly number[], wanted: (id: number) => boolean): readonly number[] {
  const matching = ids.filter(wanted);
  return matching.length > 0 ? matching : ids;
}
