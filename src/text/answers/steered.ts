/**
 * What does an answer say when some tokens are forced or forbidden? The usual draw, once more where it hits a forbidden
 * token; or a draw among the few that are left. A pure function of seed and position, as `answers.ts`, drawn as it is read.
 */

import { mix } from "../../base/random.ts";
import { type AnswerTables, nextToken } from "./answers.ts";

/** Separates the draw among the tokens that are left from the usual one. */
const CHOICE_SALT = 0x3c6ef372;
/** New draws for a forbidden token before the next id up is taken. */
const DRAWS = 64;

/** A set of ids, as far as it is asked. */
type Ids = Pick<ReadonlySet<number>, "has" | "size">;

export interface TokenRules {
  /** Only these, at least one; null: any. */
  readonly only: readonly number[] | null;
  /** None of these; of no effect on `only`. */
  readonly never: Ids;
  /** Token sequences whose last token may not follow the others. */
  readonly neverAfter: readonly Uint32Array[];
  /** What would end the answer, and the position (from 0) before which it may not come. */
  readonly ends: Ids;
  readonly endsFrom: number;
}

/** Rules as all choices of a request draw by them. */
export interface Steering extends TokenRules {
  /** `only` before `endsFrom`. */
  readonly onlyFirst: readonly number[] | null;
  readonly vocabularySize: number;
}

/** Looks at the lists once: they may hold the whole vocabulary, and a request may have thousands of choices. */
export function steer(rules: TokenRules, vocabularySize: number): Steering {
  const only = left(rules, vocabularySize);
  return { ...rules, only, onlyFirst: only && orAll(only, (id) => !rules.ends.has(id)), vocabularySize };
}

/** A whole answer of `length` tokens, made while it is read from front to back. */
export class SteeredAnswer {
  readonly length: number;
  readonly #tables: AnswerTables;
  readonly #seed: number;
  readonly #steering: Steering;
  /** The last ids before `#at`, as many as the longest sequence looks back. */
  #recent: number[] = [];
  readonly #lookBack: number;
  #at = 0;

  constructor(tables: AnswerTables, seed: number, length: number, steering: Steering) {
    this.length = length;
    this.#tables = tables;
    this.#seed = seed;
    this.#steering = steering;
    this.#lookBack = Math.max(0, ...steering.neverAfter.map((words) => words.length - 1));
  }

  /** The ids from `from` up to `to`, or the end. Reading goes on where it stopped, or starts again. */
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
    const { endsFrom, vocabularySize } = this.#steering;
    const only = position < endsFrom ? this.#steering.onlyFirst : this.#steering.only;
    let id = this.#candidate(only, 0, position);
    for (let draw = 1; draw <= DRAWS && this.#forbidden(id, position); draw++)
      id = this.#candidate(only, draw, position);
    if (only !== null) return id;
    const last = id;
    while (this.#forbidden(id, position)) {
      id = (id + 1) % vocabularySize;
      if (id === last) return id; // all of them are forbidden
    }
    return id;
  }

  #candidate(only: readonly number[] | null, draw: number, position: number): number {
    const seed = (this.#seed + draw) | 0;
    if (only === null) return nextToken(this.#tables, seed, position);
    return only[Math.floor((mix(seed ^ CHOICE_SALT, position) * only.length) / 2 ** 32)]!;
  }

  #forbidden(id: number, position: number): boolean {
    const { never, ends, endsFrom, neverAfter } = this.#steering;
    if (never.has(id) || (position < endsFrom && ends.has(id))) return true;
    return neverAfter.some((words) => words.at(-1) === id && this.#follows(words));
  }

  /** The ids before stand as in `words` without its last one. */
  #follows(words: Uint32Array): boolean {
    const before = words.length - 1;
    const from = this.#recent.length - before;
    if (from < 0) return false;
    for (let i = 0; i < before; i++) if (this.#recent[from + i] !== words[i]) return false;
    return true;
  }
}

/** The few that are left, when they are few; of tokens that are forced those that are not forbidden. */
function left({ only, never }: TokenRules, vocabularySize: number): readonly number[] | null {
  if (only !== null) return orAll(only, (id) => !never.has(id));
  if (never.size < vocabularySize / 2) return null;
  const rest = Array.from({ length: vocabularySize }, (_, id) => id).filter((id) => !never.has(id));
  return rest.length > 0 ? rest : null;
}

function orAll(ids: readonly number[], wanted: (id: number) => boolean): readonly number[] {
  const some = ids.filter(wanted);
  return some.length > 0 ? some : ids;
}
