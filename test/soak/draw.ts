/** Seeded choices of a soak run, and the texts made from them. */
import { seeded } from "../../src/base/random.ts";

export class Draw {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  /** At least 0, below 1. */
  share(): number {
    return this.#random() / 2 ** 32;
  }

  /** A whole number from 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.share() * count);
  }

  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  coin(): boolean {
    return this.below(2) === 0;
  }

  /** One of `items`, as often as its weight says. */
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

/** Mostly short, sometimes as long as a document. */
export const prompt = (draw: Draw): string => text(draw, draw.of([3, 10, 30, 100, 100, 600]));
