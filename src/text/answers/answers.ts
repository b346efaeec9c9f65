/**
 * The text and the length of an answer whose request determines neither.
 *
 * Text is prose from tables: a block of 32 tokens follows one template, and each position of a template names the
 * category that its word is drawn from. Both draws depend on seed and position alone, so an answer is the same under
 * any load. The core draws by the same rule in WebAssembly; `nextToken` is the reference that it is tested against.
 */
import { mix } from "../../base/random.ts";
import type { OutputLengths } from "./length-forms.ts";

/** Tokens per template. */
export const BLOCK_TOKENS = 32;
/** Separates the draw of the template from the draw of the word. */
const TEMPLATE_SALT = 0x5bd1e995;

export interface AnswerTables {
  /** Template t is templates[32 t] … templates[32 t + 31], each a category. */
  readonly templates: Uint8Array;
  /** Category c is ids[categoryStart[c]] … ids[categoryStart[c + 1] - 1], never empty. */
  readonly categoryStart: Int32Array;
  readonly ids: Int32Array;
}

/** The seed of an answer that is decided by its prompt alone, as under greedy decoding: 32 bits that all ids go into. */
export function greedySeed(promptIds: Uint32Array): number {
  return mixedIn(promptIds.length, promptIds, 0, promptIds.length);
}

/** Goes on with the ids from `from` to `to`; `seed`: of those before, the prompt's length where there are none. */
export function mixedIn(seed: number, ids: Uint32Array, from: number, to: number): number {
  let mixed = seed;
  for (let at = from; at < to; at++) mixed = mix(mixed ^ ids[at]!, at);
  return mixed;
}

/** Evenly one of `count` for a 32-bit draw; exact, since the product stays below 2^53. */
function pick(draw: number, count: number): number {
  return Math.floor((draw * count) / 2 ** 32);
}

/** The id at `position` (from 0) of the answer with this seed. */
export function nextToken({ templates, categoryStart, ids }: AnswerTables, seed: number, position: number): number {
  const template = pick(mix(seed ^ TEMPLATE_SALT, position >>> 5), templates.length / BLOCK_TOKENS);
  const category = templates[template * BLOCK_TOKENS + (position & 31)]!;
  const start = categoryStart[category]!;
  return ids[start + pick(mix(seed, position), categoryStart[category + 1]! - start)]!;
}

/** Twelve uniform draws: their sum less six has mean 0, variance 1 and is near enough to normal. Any machine gives the same. */
export function normal(seed: number): number {
  let sum = -6;
  for (let draw = 0; draw < 12; draw++) sum += (mix(seed ^ 0x2545f491, draw) + 0.5) / 2 ** 32;
  return sum;
}

/**
 * A log-normal whole number of at least 1 with this mean; `sigma` is the deviation of its logarithm. Plain multiplication
 * and addition only, so that every machine gives the same number.
 */
export function logNormal(seed: number, mean: number, sigma: number): number {
  // exp(x) = (1 + x / 2^16)^(2^16); minus half the variance, so that the mean is the one asked for.
  let factor = 1 + (sigma * normal(seed) - (sigma * sigma) / 2) / 65536;
  for (let square = 0; square < 16; square++) factor *= factor;
  return Math.max(1, Math.round(mean * factor));
}

/** Little-endian words: number of templates, number of categories, categoryStart, ids; then the templates. */
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

/** The tables in a packed file (`build/answers.bin`). Throws when it is no such file. */
export function loadAnswers(bytes: Uint8Array): AnswerTables {
  const file = new Uint8Array(bytes); // a copy: aligned, and small
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
 * The output position (from 1) at which an answer with this seed ends by itself. The end of sequence is its last token and
 * counts, as in vLLM 0.33 (`v1/core/sched/utils.py`, check_stop). Same seed, same length.
 */
export type NaturalLength = (seed: number) => number;

/** Separates the draw of a length from those of the words. */
const LENGTH_SALT = 0x1f83d9ab;
/** The core's positions have 32 bits, and no context is that long. */
const MOST_TOKENS = 2 ** 30;

/** `traced`: the lengths in the file, at least one; null if `lengths` names no file. */
export function naturalLength(lengths: OutputLengths, traced: Uint32Array | null): NaturalLength {
  if (lengths.kind === "constant") return () => lengths.tokens;
  if (lengths.kind === "lognormal")
    return (seed) => Math.min(MOST_TOKENS, logNormal(seed, lengths.meanTokens, lengths.sigma));
  if (traced === null) throw new Error("output lengths of a trace were not read");
  return (seed) => traced[Math.floor((mix(seed ^ LENGTH_SALT, 0) * traced.length) / 2 ** 32)]!;
}
