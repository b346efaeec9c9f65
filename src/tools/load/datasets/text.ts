/**
 * Writes prompts with a given number of tokens: as token ids if the server accepts them, else as words, as exactly as the
 * server's tokenizer allows.
 */
import { type Random, seeded } from "../../../base/random.ts";
import { TraceError } from "../../../workloads/trace.ts";
import { WORDS } from "./words.ts";

/** Counts the tokens of each text on the server (`POST /tokenize`), including those that it adds to every text. */
export type Count = (texts: readonly string[]) => Promise<readonly number[]>;

/** Number of texts in one call of `Count`. */
const COUNTED_AT_ONCE = 64;
/** Minimum number of words that are one token each. With fewer, all words are used and measured by their average. */
const WORDS_LEAST = 64;
/**
 * Range of ids that are ordinary tokens in common vocabularies. Mistral's first 1,000 ids are control tokens; Llama 2 has
 * 32,000 ids.
 */
const ID_LEAST = 1000;
const ID_COUNT = 30_000;

/** Purpose of a random sequence. */
export type Domain = "own" | "prefix" | "block" | "length" | "order" | "think";
const DOMAINS: Readonly<Record<Domain, number>> = { own: 1, prefix: 2, block: 3, length: 4, order: 5, think: 6 };
/** Offset of the sequence numbers of a warm-up. */
const WARM_UP = 2 ** 31;

/** Source of all random sequences of a dataset. */
export class Streams {
  readonly #seed: number;
  readonly #first: number;

  /** `warmUp`: selects sequences that differ from the measured ones of the same seed. */
  constructor(seed: number, warmUp = false) {
    this.#seed = seed;
    this.#first = warmUp ? WARM_UP : 0;
  }

  /** Returns the random sequence of a purpose and number. Different numbers below 2³¹ have different sequences. */
  of(domain: Domain, number = 0): Random {
    const high = Math.floor(number / 2 ** 32);
    const start = mix(this.#seed ^ Math.imul(DOMAINS[domain], 0x9e3779b1));
    return seeded(mix((start + this.#first + number + Math.imul(high, 0x85ebca6b)) | 0));
  }
}

/** Maps 32-bit numbers one-to-one (finalizer of MurmurHash3). */
function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** Draws a whole number from `least` to `most`. */
export function draw(random: Random, least: number, most: number): number {
  return least + Math.floor((random() / 2 ** 32) * (most - least + 1));
}

/** Words for texts, and the number of tokens that one of them takes. */
export interface Measure {
  readonly words: readonly string[];
  readonly tokensPerWord: number;
  /** False if the server did not count, so `tokensPerWord` is the value of common vocabularies. */
  readonly measured: boolean;
}

export const UNMEASURED: Measure = { words: WORDS, tokensPerWord: 1, measured: false };

/** Asks the server which words are one token each. */
export async function measure(count: Count): Promise<Measure> {
  const [once = 0, twice = 0] = await counted(count, [WORDS.join(" "), [...WORDS, ...WORDS].join(" ")]);
  const before = 2 * once - twice;
  const words = once - before === WORDS.length ? WORDS : await single(count);
  if (words.length >= WORDS_LEAST) return { words, tokensPerWord: 1, measured: true };
  return { words: WORDS, tokensPerWord: (twice - once) / WORDS.length, measured: true };
}

/** Finds the words that are one token each, by repeated halving. */
async function single(count: Count): Promise<readonly string[]> {
  const singles: string[] = [];
  let parts: (readonly string[])[] = [WORDS];
  while (parts.length > 0) {
    const halves = parts.flatMap((part) => [part.slice(0, part.length >> 1), part.slice(part.length >> 1)]);
    // Put another word first, so that each word is counted as it stands within a text.
    const texts = halves.map((part) => ["the", ...part].join(" "));
    const tokens = await counted(count, ["the", ...texts]);
    parts = halves.filter((part, at) => {
      const isSingle = tokens[at + 1]! - tokens[0]! === part.length;
      if (isSingle) singles.push(...part);
      return !isSingle && part.length > 1;
    });
  }
  return singles;
}

/** Counts any number of texts, some at a time. */
export async function counted(count: Count, texts: readonly string[]): Promise<number[]> {
  const tokens: number[] = [];
  for (let at = 0; at < texts.length; at += COUNTED_AT_ONCE) {
    const piece = texts.slice(at, at + COUNTED_AT_ONCE);
    const counts = await count(piece);
    if (counts.length !== piece.length || !counts.every((n) => Number.isSafeInteger(n) && n >= 0)) {
      throw new TraceError(`the server's tokenizer gave no count for each of ${piece.length} texts`);
    }
    tokens.push(...counts);
  }
  return tokens;
}

/** Numbers that stand for tokens: indices of words, or token ids. */
export type Symbols = number[];

/** Writes prompts as token ids or as text. */
export class PromptWriter {
  /** `measure`: words for text. Null to write token ids. */
  constructor(private readonly measure: Measure | null) {}

  /**
   * Appends the symbols for tokens `from` to below `to` of a prompt. Parts that are appended one after another have exactly
   * the length of the whole.
   */
  append(symbols: Symbols, random: Random, from: number, to: number): void {
    const [least, most] = this.measure ? [0, this.measure.words.length - 1] : [ID_LEAST, ID_LEAST + ID_COUNT - 1];
    const end = this.#symbolsOf(to);
    for (let at = this.#symbolsOf(from); at < end; at++) symbols.push(draw(random, least, most));
  }

  prompt(symbols: Symbols): string | readonly number[] {
    if (this.measure === null) return symbols;
    const { words } = this.measure;
    return symbols.map((word) => words[word]).join(" ");
  }

  /** Returns a prompt of one random sequence. */
  write(random: Random, tokens: number): string | readonly number[] {
    const symbols: Symbols = [];
    this.append(symbols, random, 0, tokens);
    return this.prompt(symbols);
  }

  #symbolsOf(tokens: number): number {
    if (this.measure === null || tokens === 0) return tokens;
    return Math.max(1, Math.round(tokens / this.measure.tokensPerWord));
  }
}
