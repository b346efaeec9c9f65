/**
 * Puts reasoning before an answer: `<think>`, prose of a separate seed, `</think>`, then the answer. The length of the reasoning
 * is drawn from the seed, like that of answers.
 */
import { type AnswerTables, logNormal } from "./answers.ts";
import { SteeredAnswer, type Steering, steer } from "./steered.ts";

/** Salt that makes the draws of reasoning independent of those of the answer. */
const THINKING_SALT = 0x6a09e667;
/** Standard deviation of the logarithm of the length of reasoning. */
const SIGMA = 0.7;

/** The reasoning of an answer. */
export interface Thinking {
  /** ID of `<think>`. Null if the prompt ends with it. */
  readonly startId: number | null;
  /** ID of `</think>`. */
  readonly endId: number;
  /** Number of tokens between `<think>` and `</think>`. */
  readonly tokens: number;
}

/** Draws the number of tokens of reasoning with this mean. Returns 0 for a mean of 0. */
export function thinkingLength(seed: number, meanTokens: number): number {
  return meanTokens === 0 ? 0 : logNormal(seed ^ THINKING_SALT, meanTokens, SIGMA);
}

/** Token IDs that are read in order. */
interface Ids {
  readonly length: number;
  subarray(from: number, to: number): Uint32Array;
}

/** Returns an answer of `length` tokens. `steering` is null if no token is forced or forbidden. */
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

/** An answer of reasoning and then `rest`. */
export class ThinkingAnswer implements Ids {
  readonly length: number;
  readonly #parts: readonly Ids[];

  constructor(
    { startId, endId, tokens }: Thinking,
    drawReasoning: (seedSalt: number, length: number) => Ids,
    rest: Ids,
  ) {
    this.#parts = [
      Uint32Array.from(startId === null ? [] : [startId]),
      drawReasoning(THINKING_SALT, tokens),
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
