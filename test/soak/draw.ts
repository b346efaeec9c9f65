/** Seeded choices of a soak run, and the texts made from them. */
import { seeded } from "../../src/base/random.ts";

export class Draw {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  /** Returns a number from 0 to below 1. */
  share(): number {
    return this.#random() / 2 ** 32;
  }

  /** Returns a whole number from 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.share() * count);
  }

  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  coin(): boolean {
    return this.below(2) === 0;
  }

  /** Returns one of `items`, with a probability in proportion to its weight. */
  weighted<T extends { readonly weight: number }>(items: readonly T[]): T {
    let left = this.share() * items.reduce((sum, { weight }) => sum + weight, 0);
    for (const item of items) {
      left -= item.weight;
      if (left < 0) return item;
    }
    return items[0]!;
  }
}

const WORDS = "the cache of a server keeps blocks that many prompts share while requests come and go in time".split(
  " ",
);

export const text = (draw: Draw, words: number): string =>
  Array.from({ length: words }, () => draw.of(WORDS)).join(" ");

/** Returns a prompt that is mostly short and sometimes as long as a document. */
export const prompt = (draw: Draw): string => text(draw, draw.of([3, 10, 30, 100, 100, 600]));
