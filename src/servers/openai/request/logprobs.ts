/**
 * Which log probabilities does an answer carry? There is no model: values are made from seed and position, so that the
 * same request gets the same numbers. Their shape is vLLM 0.33's (`v1/engine/logprobs.py`, the serving classes).
 */

import { mix } from "../../../base/random.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { escapeJson } from "../../../text/tokens/vocabulary.ts";
import { reprFloat } from "../../pydantic/repr.ts";
import { codePoints } from "../../pydantic/value.ts";
import type { LogprobSource } from "./logprob-source.ts";

/** Most ranks that each take a share of the probability that is left; other tokens have equal parts of the remainder. */
const HEAD_MOST = 32;
/** A share is one of these bounds or between them: so each rank has less than the one before. */
const SHARE = { least: 0.4, most: 0.6 };

/**
 * Values as a confident model gives them: the sampled token ranks first, the others fall off behind it, and the
 * probabilities of the vocabulary add up to 1. No id comes twice.
 */
export function seededLogprobs(vocabularySize: number): LogprobSource {
  const head = Math.min(HEAD_MOST, Math.floor(vocabularySize / 2));
  return (seed, id, position, count) => {
    let state = Math.imul(seed ^ Math.imul(position + 1, 0x9e3779b9), 0x85ebca6b) >>> 0;
    const draw = () => {
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0;
      return state / 2 ** 32;
    };
    const logprob = Math.fround(-0.01 - 0.65 * draw());
    const ids = [id];
    const logprobs = [logprob];
    let step = 1 + Math.floor(draw() * (vocabularySize - 1));
    while (divisor(step, vocabularySize) > 1) step = (step % (vocabularySize - 1)) + 1;
    let left = Math.log1p(-Math.exp(logprob));
    for (let rank = 1; rank < Math.min(count, vocabularySize); rank++) {
      ids.push((id + rank * step) % vocabularySize);
      if (rank < head) {
        const share = SHARE.least + (SHARE.most - SHARE.least) * draw();
        logprobs.push(Math.fround(left + Math.log(share)));
        left += Math.log1p(-share);
      } else {
        logprobs.push(Math.fround(left - Math.log(vocabularySize - head)));
      }
    }
    ids.length = Math.min(count, ids.length);
    logprobs.length = ids.length;
    return { logprob, rank: 1, ids, logprobs };
  };
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** Values below are shown as this: JSON has no -Infinity. */
const FLOOR = -9999;
/** Each token of `logprob_token_ids` has its part of what the sampled one leaves, for so many of them at most, or less. */
const CHOSEN_MOST = 128;
const SPREAD = 12;
/** Tokens before a broken one that may belong to the same character. */
const CONTEXT = 4;
const REPLACEMENT = "\ufffd";

interface Entry {
  readonly id: number;
  readonly text: string;
  readonly logprob: number;
  readonly rank: number;
}

/** A text, part by part; each takes less than a millisecond to make, but where a token's candidates are the vocabulary. */
export type TextParts = Generator<string, void>;

/** Candidates of one part: some tenths of a millisecond. */
const CANDIDATES_OF_A_PART = 512;

/** Log probabilities of one choice, token by token. */
export class Logprobs {
  readonly #source: LogprobSource;
  /** Characters of all tokens shown so far, as they are shown. */
  #offset = 0;
  readonly #seed: number;
  readonly #vocabulary: Vocabulary;
  readonly #count: number;
  readonly #asIds: boolean;
  readonly #chosen: readonly number[] | null;
  /** The last tokens, which a token that is no whole character may complete. */
  readonly #recent: number[] = [];

  /**
   * `count`: candidates beside the sampled token; -1: the whole vocabulary. `asIds`: tokens as `token_id:7`. `chosen`:
   * these are the candidates of output tokens instead, all of them.
   */
  constructor(
    source: LogprobSource,
    seed: number,
    vocabulary: Vocabulary,
    count: number,
    asIds: boolean,
    chosen: readonly number[] | null = null,
  ) {
    this.#chosen = chosen;
    this.#source = source;
    this.#seed = seed;
    this.#vocabulary = vocabulary;
    this.#count = count === -1 ? vocabulary.size : count;
    this.#asIds = asIds;
  }

  /** The value of chat's `logprobs` for these tokens. */
  chat(ids: readonly number[], position: number): string {
    return `{"content":[${ids.map((id, i) => this.#chatEntry(id, position + i)).join(",")}]}`;
  }

  /** Tokens whose log probabilities are not shown. */
  passOver(ids: readonly number[]): void {
    for (const id of ids.slice(-CONTEXT)) this.#remember(id);
  }

  *chatParts(ids: readonly number[], position: number): TextParts {
    yield '{"content":[';
    yield* listed(ids, this.#candidates, (id, i) => this.#chatEntry(id, position + i));
    yield "]}";
  }

  /**
   * The value of completions' `logprobs`; offsets go on from the tokens shown before. `prompt`: echoed prompt tokens in
   * front, which have at most `promptCount` candidates.
   */
  *completionParts(
    ids: readonly number[],
    position: number,
    prompt: ArrayLike<number> & Iterable<number> = [],
    promptCount = this.#count,
  ): TextParts {
    const all = prompt.length === 0 ? ids : [...prompt, ...ids];
    const place = (i: number) => (i < prompt.length ? i : position + i - prompt.length);
    const before = [...this.#recent];
    // Each list goes over all tokens anew: kept until the ones before them are written, they would be megabytes.
    const anew = () => void this.#recent.splice(0, Number.POSITIVE_INFINITY, ...before);
    const shown = (id: number) => {
      const text = this.#shown(id, this.#textOf(id));
      this.#remember(id);
      return text;
    };
    yield '{"text_offset":[';
    yield* listed(all, 1, (id) => {
      const at = this.#offset;
      this.#offset += codePoints(shown(id));
      return String(at);
    });
    yield '],"token_logprobs":[';
    yield* listed(all, 1, (id, i) =>
      i === 0 && prompt.length > 0
        ? "null"
        : number(this.#source(this.#seed, id, place(i), 0, i < prompt.length).logprob),
    );
    yield '],"tokens":[';
    anew();
    yield* listed(all, 1, (id) => quote(shown(id)));
    yield '],"top_logprobs":[';
    anew();
    const most = this.#chosen === null ? this.#count + 1 : undefined;
    yield* listed(all, this.#candidates, (id, i) => {
      const entries =
        i >= prompt.length
          ? this.#outputs(id, place(i))
          : i === 0
            ? null
            : this.#entries(id, i, true, promptCount).slice(0, most);
      const top = entries === null ? "null" : this.#topObject(entries);
      this.#remember(id);
      return top;
    });
    yield "]}";
  }

  /** The value of `prompt_logprobs`: nothing for the first token. */
  *promptParts(ids: ArrayLike<number>): TextParts {
    yield "[";
    yield* listed(ids, this.#candidates, (id, i) => {
      const text = i === 0 ? "null" : this.#promptObject(this.#entries(id, i, true));
      this.#remember(id);
      return text;
    });
    yield "]";
  }

  get #candidates(): number {
    return (this.#chosen?.length ?? this.#count) + 1;
  }

  #chatEntry(id: number, position: number): string {
    const entries = this.#outputs(id, position);
    this.#remember(id);
    const { text, logprob } = entries[0]!;
    const top = entries.slice(0, this.#chosen === null ? this.#count : entries.length).map((entry) => {
      const shown = this.#shown(entry.id, entry.text);
      return `{"token":${quote(shown)},"logprob":${number(entry.logprob)},"bytes":${bytesOf(shown)}}`;
    });
    return `{"token":${quote(this.#shown(id, text))},"logprob":${number(logprob)},"bytes":${bytesOf(text)},"top_logprobs":[${top}]}`;
  }

  /** As a Python dict: a text that comes again keeps its place and takes the new value. */
  #topObject(entries: readonly Entry[]): string {
    const values = new Map<string, number>();
    for (const { id, text, logprob } of entries) values.set(this.#shown(id, text), logprob);
    return `{${Array.from(values, ([text, logprob]) => `${quote(text)}:${number(logprob)}`)}}`;
  }

  #promptObject(entries: readonly Entry[]): string {
    let items = "";
    for (const { id, text, logprob, rank } of entries) {
      items += `${items === "" ? "" : ","}"${id}":{"logprob":${number(logprob)},"rank":${rank},"decoded_token":"${escapeJson(text)}"}`;
    }
    return `{${items}}`;
  }

  /** `#entries` of an output token. */
  #outputs(id: number, position: number): Entry[] {
    if (this.#chosen === null) return this.#entries(id, position);
    const { logprob, rank } = this.#source(this.#seed, id, position, 0);
    const entries = [{ id, text: this.#textOf(id), logprob, rank }];
    const most = Math.log1p(-Math.exp(logprob)) - Math.log(CHOSEN_MOST);
    for (const other of new Set(this.#chosen)) {
      if (other === id) continue;
      const behind = (SPREAD * mix(this.#seed ^ other, position)) / 2 ** 32;
      entries.push({ id: other, text: this.#textOf(other), logprob: Math.fround(most - behind), rank: 0 });
    }
    return entries;
  }

  /** The sampled token, then the candidates that are not the sampled one. */
  #entries(id: number, position: number, prompt = false, count = this.#count): Entry[] {
    const { logprob, rank, ids, logprobs } = this.#source(this.#seed, id, position, count, prompt);
    const entries = [{ id, text: this.#textOf(id), logprob, rank }];
    ids.forEach((other, i) => {
      if (other !== id) entries.push({ id: other, text: this.#textOf(other), logprob: logprobs[i]!, rank: i + 1 });
    });
    return entries;
  }

  #shown(id: number, text: string): string {
    return this.#asIds ? `token_id:${id}` : text;
  }

  /** A token that is no whole character has the text that it completes, or none (vLLM 0.33, `v1/engine/logprobs.py`). */
  #textOf(id: number): string {
    const piece = this.#vocabulary.freshPiece(id);
    if (piece !== undefined) return piece;
    for (let count = 1; count <= this.#recent.length; count++) {
      const context = this.#recent.slice(-count);
      const whole = this.#decode([...context, id]);
      if (whole.endsWith(REPLACEMENT)) continue;
      // Tokens right before it that are no whole characters had no text of their own: it is this one's.
      let clean = context.length;
      while (clean > 0 && this.#decode([context[clean - 1]!]).endsWith(REPLACEMENT)) clean--;
      return whole.slice(this.#decode(context.slice(0, clean)).length);
    }
    return "";
  }

  #decode(ids: readonly number[]): string {
    return Buffer.concat(ids.map((id) => this.#vocabulary.bytesOf(id).slice())).toString();
  }

  #remember(id: number): void {
    this.#recent.push(id);
    if (this.#recent.length > CONTEXT) this.#recent.shift();
  }
}

/** One text per token, with commas between. */
function* listed(ids: ArrayLike<number>, candidates: number, textOf: (id: number, i: number) => string): TextParts {
  const tokens = Math.max(1, Math.floor(CANDIDATES_OF_A_PART / candidates));
  let part = "";
  for (let i = 0; i < ids.length; i++) {
    part += i === 0 ? textOf(ids[i]!, i) : `,${textOf(ids[i]!, i)}`;
    if ((i + 1) % tokens !== 0) continue;
    yield part;
    part = "";
  }
  yield part;
}

function quote(text: string): string {
  return `"${escapeJson(text)}"`;
}

function number(value: number): string {
  return reprFloat(Math.max(value, FLOOR));
}

const encoder = new TextEncoder();

function bytesOf(text: string): string {
  return `[${encoder.encode(text).join(",")}]`;
}
