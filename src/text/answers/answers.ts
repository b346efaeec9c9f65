/**
 * Draws the text and the length of answers that the request does not determine.
 *
 * The text is prose from tables. A block of 32 tokens follows a template, and each position of a template names the category
 * that its word is drawn from. Both draws depend only on seed and position, so that an answer is the same under any load. The
 * core draws by the same rule in WebAssembly, and is tested against `nextToken`.
 */
import { mix } from "../../base/random.ts";
import type { OutputLengths } from "./length-forms.ts";

/** Tokens per template. */
export const BLOCK_TOKENS = 32;
/** Salt that makes the draw of the template independent of the draw of the word. */
const TEMPLATE_SALT = 0x5bd1e995;

/** The tables that default answers are drawn from. */
export interface AnswerTables {
  /** Template t is templates[32 t] to templates[32 t + 31]. Each entry is a category. */
  readonly templates: Uint8Array;
  /** Category c is ids[categoryStart[c]] to ids[categoryStart[c + 1] - 1], and is never empty. */
  readonly categoryStart: Int32Array;
  readonly ids: Int32Array;
}

/** Returns the seed of an answer that only its prompt decides, like greedy decoding: a 32-bit hash of all IDs. */
export function greedySeed(promptIds: Uint32Array): number {
  return mixedIn(promptIds.length, promptIds, 0, promptIds.length);
}

/** Adds the IDs from `from` to `to - 1` to a hash. `seed`: the hash of the IDs before, or the prompt's length at the start. */
export function mixedIn(seed: number, ids: Uint32Array, from: number, to: number): number {
  let mixed = seed;
  for (let at = from; at < to; at++) mixed = mix(mixed ^ ids[at]!, at);
  return mixed;
}

/** Maps a 32-bit draw evenly to 0 to `count - 1`. Exact, because the product stays below 2^53. */
function pick(draw: number, count: number): number {
  return Math.floor((draw * count) / 2 ** 32);
}

/** Returns the ID at `position` (from 0) of the answer with this seed. */
export function nextToken({ templates, categoryStart, ids }: AnswerTables, seed: number, position: number): number {
  const template = pick(mix(seed ^ TEMPLATE_SALT, position >>> 5), templates.length / BLOCK_TOKENS);
  const category = templates[template * BLOCK_TOKENS + (position & 31)]!;
  const start = categoryStart[category]!;
  return ids[start + pick(mix(seed, position), categoryStart[category + 1]! - start)]!;
}

/** Returns a nearly normal number of mean 0 and variance 1: the sum of twelve uniform draws less six. Same on any machine. */
export function normal(seed: number): number {
  let sum = -6;
  for (let draw = 0; draw < 12; draw++) sum += (mix(seed ^ 0x2545f491, draw) + 0.5) / 2 ** 32;
  return sum;
}

/**
 * Returns a log-normal whole number of at least 1 with this mean. `sigma`: standard deviation of its logarithm. Only multiplies
 * and adds, so that every machine returns the same number.
 */
export function logNormal(seed: number, mean: number, sigma: number): number {
  // exp(x) is about (1 + x / 2^16)^(2^16). Half the variance is subtracted, so that `mean` is the mean of the result.
  let factor = 1 + (sigma * normal(seed) - (sigma * sigma) / 2) / 65536;
  for (let square = 0; square < 16; square++) factor *= factor;
  return Math.max(1, Math.round(mean * factor));
}

/** Packs tables: number of templates, number of categories, categoryStart and ids as little-endian words, then templates. */
export function packAnswers({ templates, categoryStart, ids }: AnswerTables): Uint8Array<ArrayBuffer> {
  const words = 2 + categoryStart.length + ids.length;
  const file = new Uint8Array(words * 4 + templates.length);
  const view = new Int32Array(file.buffer, 0, words);
  view.set([templates.length / BLOCK_TOKENS, categoryStart.length - 1]);
  view.set(categoryStart, 2);
  view.set(ids, 2 + categoryStart.length);
  file.set(templates, words * 4);
  return file;
}

/** Reads the tables of a packed file (`build/answers.bin`). Throws if it is another file. */
export function loadAnswers(bytes: Uint8Array): AnswerTables {
  // A small copy, because the words must be aligned.
  const file = new Uint8Array(bytes);
  const words = new Int32Array(file.buffer, 0, file.byteLength >> 2);
  const [templateCount = 0, categories = 0] = words;
  const categoryStart = words.slice(2, 3 + categories);
  const idsAt = 3 + categories;
  const templatesAt = (idsAt + (categoryStart.at(-1) ?? 0)) * 4;
  if (templateCount < 1 || file.byteLength !== templatesAt + templateCount * BLOCK_TOKENS) {
    throw new Error("not a file of answer tables: bun run build");
  }
  return { templates: file.slice(templatesAt), categoryStart, ids: words.slice(idsAt, templatesAt >> 2) };
}

/**
 * Returns the number of tokens of an answer with this seed that ends by itself. The end of sequence is its last token and
 * counts, as in vLLM 0.33 (`v1/core/sched/utils.py`, check_stop).
 */
export type NaturalLength = (seed: number) => number;

/** Salt that makes the draw of the length independent of the draws of words. */
const LENGTH_SALT = 0x1f83d9ab;
/** Most tokens of a drawn length. The core's positions have 32 bits, and no context is that long. */
const MOST_TOKENS = 2 ** 30;

/** Returns the function that draws lengths. `traced`: at least one length from the file, or null if `lengths` names no file. */
export function naturalLength(lengths: OutputLengths, traced: Uint32Array | null): NaturalLength {
  if (lengths.kind === "constant") return () => lengths.tokens;
  if (lengths.kind === "lognormal")
    return (seed) => Math.min(MOST_TOKENS, logNormal(seed, lengths.meanTokens, lengths.sigma));
  if (traced === null) throw new Error("output lengths of a trace were not read");
  return (seed) => traced[Math.floor((mix(seed ^ LENGTH_SALT, 0) * traced.length) / 2 ** 32)]!;
}
