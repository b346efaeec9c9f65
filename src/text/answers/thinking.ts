/**
 * What does an answer say that thinks first? `<think>`, prose of its own seed, `</think>`, then the rest. How much it thinks
 * is drawn from the seed, as lengths of answers are.
 */
import { type AnswerTables, logNormal } from "./answers.ts";
import { SteeredAnswer, type Steering, steer } from "./steered.ts";

/** Separates the draws of thinking from those of what follows. */
const THINKING_SALT = 0x6a09e667;
/** Deviation of the logarithm of its length. */
const SIGMA = 0.7;

/** The tokens around it; `startId` null: the prompt has opened it. */
export interface Thinking {
  readonly startId: number | null;
  readonly endId: number;
  /** Tokens between the two. */
  readonly tokens: number;
}

/** Tokens of thinking with this mean; 0 for a mean of 0. */
export function thinkingLength(seed: number, meanTokens: number): number {
  return meanTokens === 0 ? 0 : logNormal(seed ^ THINKING_SALT, meanTokens, SIGMA);
}

/** A text that is read from front to back. */
interface Ids {
  readonly length: number;
  subarray(from: number, to: number): Uint32Array;
}

/** `steering` null: nothing is forced or forbidden. */
export function drawn(
  tables: AnswerTables,
  seed: number,
  length: number,
  steering: Steering | null,
  vocabularySize: number,
): Ids {
  return new SteeredAnswer(tables, seed, length, steering ?? steer(FREE, vocabularySize));
}

const FREE = { only: null, never: new Set<number>(), neverAfter: [], ends: new Set<number>(), endsFrom: 0 };

/** The thinking, then `rest`. */
export class ThinkingAnswer implements Ids {
  readonly length: number;
  readonly #parts: readonly Ids[];

  constructor({ startId, endId, tokens }: Thinking, thoughts: (seedSalt: number, length: number) => Ids, rest: Ids) {
    this.#parts = [
      Uint32Array.from(startId === null ? [] : [startId]),
      thoughts(THINKING_SALT, tokens),
      Uint32Array.of(endId),
      rest,
    ];
    this.length = this.#parts.reduce((sum, { length }) => sum + length, 0);
  }

  subarray(from: number, to: number): Uint32Array {
    const end = Math.min(to, this.length);
    if (from >= end) return new Uint32Array(0);
    const ids = new Uint32Array(end - from);
    let begins = 0;
    for (const part of this.#parts) {
      const [first, last] = [Math.max(from, begins), Math.min(end, begins + part.length)];
      if (first < last) ids.set(part.subarray(first - begins, last - begins), first - from);
      begins += part.length;
    }
    return ids;
  }
}
