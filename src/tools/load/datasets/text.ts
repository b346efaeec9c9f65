/** What does a prompt of so many tokens say? Token ids where the server takes them, else words, as exactly as its tokenizer lets us. */
import { type Random, seeded } from "../../../base/random.ts";
import { TraceError } from "../../../workloads/trace.ts";
import { WORDS } from "./words.ts";

/** Tokens of each text as the server counts them (`POST /tokenize`), what it puts before every text included. */
export type Count = (texts: readonly string[]) => Promise<readonly number[]>;

/** Texts in one call of `Count`. */
const COUNTED_AT_ONCE = 64;
/** With fewer words that are one token each, texts are written from all and measured as a whole. */
const WORDS_LEAST = 64;
/**
 * Ids that are plain tokens in the vocabularies in use: Mistral's first 1,000 are control tokens, Llama 2 has 32,000 in all.
 */
const ID_LEAST = 1000;
const ID_COUNT = 30_000;

/** What is drawn. */
export type Domain = "own" | "prefix" | "block" | "length" | "order" | "think";
const DOMAINS: Readonly<Record<Domain, number>> = { own: 1, prefix: 2, block: 3, length: 4, order: 5, think: 6 };
/** Numbers of a warm-up's streams begin here. */
const WARM_UP = 2 ** 31;

/** Where a dataset's randomness comes from. */
export class Streams {
  readonly #seed: number;
  readonly #first: number;

  /** A warm-up's prompts have no beginning in common with those of the same seed that are measured. */
  constructor(seed: number, warmUp = false) {
    this.#seed = seed;
    this.#first = warmUp ? WARM_UP : 0;
  }

  /** One sequence for each domain and number; different numbers below 2³¹ never have the same one. */
  of(domain: Domain, number = 0): Random {
    const high = Math.floor(number / 2 ** 32);
    const start = mix(this.#seed ^ Math.imul(DOMAINS[domain], 0x9e3779b1));
    return seeded(mix((start + this.#first + number + Math.imul(high, 0x85ebca6b)) | 0));
  }
}

/** One to one (the finalizer of MurmurHash3). */
function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** A whole number from `least` to `most`. */
export function draw(random: Random, least: number, most: number): number {
  return least + Math.floor((random() / 2 ** 32) * (most - least + 1));
}

/** Words, and how many tokens one of them is in a text. */
export interface Measure {
  readonly words: readonly string[];
  readonly tokensPerWord: number;
  /** False: nobody counted, `tokensPerWord` is what holds for common vocabularies. */
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

/** The words that are one token each, found by halves. */
async function single(count: Count): Promise<readonly string[]> {
  const found: string[] = [];
  let parts: (readonly string[])[] = [WORDS];
  while (parts.length > 0) {
    const halves = parts.flatMap((part) => [part.slice(0, part.length >> 1), part.slice(part.length >> 1)]);
    // Behind another word, so that each is counted as it stands in a text.
    const texts = halves.map((part) => ["the", ...part].join(" "));
    const tokens = await counted(count, ["the", ...texts]);
    parts = halves.filter((part, at) => {
      const isSingle = tokens[at + 1]! - tokens[0]! === part.length;
      if (isSingle) found.push(...part);
      return !isSingle && part.length > 1;
    });
  }
  return found;
}

/** Any number of texts, in pieces. */
export async function counted(count: Count, texts: readonly string[]): Promise<number[]> {
  const tokens: number[] = [];
  for (let at = 0; at < texts.length; at += COUNTED_AT_ONCE) {
    const piece = texts.slice(at, at + COUNTED_AT_ONCE);
    const found = await count(piece);
    if (found.length !== piece.length || !found.every((n) => Number.isSafeInteger(n) && n >= 0)) {
      throw new TraceError(`the server's tokenizer gave no count for each of ${piece.length} texts`);
    }
    tokens.push(...found);
  }
  return tokens;
}

/** Numbers that stand for tokens until they are put together. */
export type Symbols = number[];

/** Writes prompts as ids, or as text. */
export class PromptWriter {
  readonly #measure: Measure | null;

  /** Null: token ids. */
  constructor(measure: Measure | null) {
    this.#measure = measure;
  }

  /** Appends the symbols for tokens `from` to below `to` of a prompt, so that parts put together have the length of the whole. */
  append(symbols: Symbols, random: Random, from: number, to: number): void {
    const [least, most] = this.#measure ? [0, this.#measure.words.length - 1] : [ID_LEAST, ID_LEAST + ID_COUNT - 1];
    const end = this.#symbolsOf(to);
    for (let at = this.#symbolsOf(from); at < end; at++) symbols.push(draw(random, least, most));
  }

  prompt(symbols: Symbols): string | readonly number[] {
    if (this.#measure === null) return symbols;
    const { words } = this.#measure;
    return symbols.map((word) => words[word]).join(" ");
  }

  /** A prompt of one random sequence. */
  write(random: Random, tokens: number): string | readonly number[] {
    const symbols: Symbols = [];
    this.append(symbols, random, 0, tokens);
    return this.prompt(symbols);
  }

  #symbolsOf(tokens: number): number {
    if (this.#measure === null || tokens === 0) return tokens;
    return Math.max(1, Math.round(tokens / this.#measure.tokensPerWord));
  }
}
