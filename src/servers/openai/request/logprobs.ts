/**
 * Makes log probabilities and writes them as JSON. There is no model, so their values follow from seed and position, and the same
 * request gets the same numbers. Their shape is that of vLLM 0.33 (`v1/engine/logprobs.py`, the serving classes).
 */

import { mix } from "../../../base/random.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { quotedJson } from "../../../text/tokens/vocabulary.ts";
import { reprFloat } from "../../pydantic/repr.ts";
import { codePoints } from "../../pydantic/value.ts";
import type { LogprobSource } from "./logprob-source.ts";

/** Most ranks that each take a share of the remaining probability. All other tokens get equal parts of the rest. */
const HEAD_MOST = 32;
/** Bounds of that share. Within them each rank is less probable than the one before. */
const SHARE = { least: 0.4, most: 0.6 };

/**
 * Returns a source with the values of a confident model. The sampled token ranks first, the others fall off quickly, and the
 * probabilities of the whole vocabulary add up to 1. No id appears twice at a position.
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

/** Returns the greatest common divisor. */
function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** The lowest log probability that is written. Lower ones are raised to it, because JSON has no -Infinity. */
const FLOOR = -9999;
/** Most tokens in `logprob_token_ids`. Each gets at most 1/128 of the probability that the sampled token leaves. */
const CHOSEN_MOST = 128;
/** Range of the log probabilities of these tokens, downwards from their maximum. */
const SPREAD = 12;
/** Number of earlier tokens that may contain bytes of the same character. */
const CONTEXT = 4;
const REPLACEMENT = "\ufffd";

interface Entry {
  readonly id: number;
  readonly text: string;
  readonly logprob: number;
  readonly rank: number;
}

/** A text in parts. Each takes less than a millisecond to make, unless a token has the whole vocabulary as candidates. */
export type TextParts = Generator<string, void>;

/** Candidates in one part. Writing them takes some tenths of a millisecond. */
const CANDIDATES_OF_A_PART = 512;

/** Writes the log probabilities of one choice, token by token. */
export class Logprobs {
  /** Characters of all tokens so far, in the form in which they are written. */
  #offset = 0;
  readonly #count: number;
  /** The last tokens. They may be the beginning of a character that the next token completes. */
  readonly #recent: number[] = [];

  /**
   * `count`: candidates in addition to the sampled token; -1: the whole vocabulary. `asIds`: writes tokens as `token_id:7`.
   * `chosen`: candidates of output tokens instead of the most likely ones; null: the most likely ones.
   */
  constructor(
    private readonly source: LogprobSource,
    private readonly seed: number,
    private readonly vocabulary: Vocabulary,
    count: number,
    private readonly asIds: boolean,
    private readonly chosen: readonly number[] | null = null,
  ) {
    this.#count = count === -1 ? vocabulary.size : count;
  }

  /** Returns the value of a chat's `logprobs` for these tokens. `position`: of the first one in the output. */
  chat(ids: readonly number[], position: number): string {
    return `{"content":[${ids.map((id, i) => this.#chatEntry(id, position + i)).join(",")}]}`;
  }

  /** Skips tokens whose log probabilities are not written. */
  passOver(ids: readonly number[]): void {
    for (const id of ids.slice(-CONTEXT)) this.#remember(id);
  }

  /** Yields the result of `chat` in parts. */
  *chatParts(ids: readonly number[], position: number): TextParts {
    yield '{"content":[';
    yield* listed(ids, this.#candidates, (id, i) => this.#chatEntry(id, position + i));
    yield "]}";
  }

  /**
   * Yields the value of a completion's `logprobs`. Text offsets continue after the tokens written before. `prompt`: echoed tokens
   * in front of the output, each with at most `promptCount` candidates.
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
    // Each list visits all tokens again, because keeping their texts until the earlier lists are written takes megabytes.
    const restart = () => void this.#recent.splice(0, Number.POSITIVE_INFINITY, ...before);
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
        : number(this.source(this.seed, id, place(i), 0, i < prompt.length).logprob),
    );
    yield '],"tokens":[';
    restart();
    yield* listed(all, 1, (id) => quotedJson(shown(id)));
    yield '],"top_logprobs":[';
    restart();
    const most = this.chosen === null ? this.#count + 1 : undefined;
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

  /** Yields the value of `prompt_logprobs`. The first token has null. */
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
    return (this.chosen?.length ?? this.#count) + 1;
  }

  #chatEntry(id: number, position: number): string {
    const entries = this.#outputs(id, position);
    this.#remember(id);
    const { text, logprob } = entries[0]!;
    const top = entries.slice(0, this.chosen === null ? this.#count : entries.length).map((entry) => {
      const shown = this.#shown(entry.id, entry.text);
      return `{"token":${quotedJson(shown)},"logprob":${number(entry.logprob)},"bytes":${bytesOf(shown)}}`;
    });
    return `{"token":${quotedJson(this.#shown(id, text))},"logprob":${number(logprob)},"bytes":${bytesOf(text)},"top_logprobs":[${top}]}`;
  }

  /** Returns an object like a Python dict: a text that appears again keeps its place and takes the new value. */
  #topObject(entries: readonly Entry[]): string {
    const values = new Map<string, number>();
    for (const { id, text, logprob } of entries) values.set(this.#shown(id, text), logprob);
    return `{${Array.from(values, ([text, logprob]) => `${quotedJson(text)}:${number(logprob)}`)}}`;
  }

  #promptObject(entries: readonly Entry[]): string {
    let items = "";
    for (const { id, text, logprob, rank } of entries) {
      items += `${items === "" ? "" : ","}"${id}":{"logprob":${number(logprob)},"rank":${rank},"decoded_token":${quotedJson(text)}}`;
    }
    return `{${items}}`;
  }

  /** Returns the sampled token of the output, then its candidates: those of the request, or the most likely ones. */
  #outputs(id: number, position: number): Entry[] {
    if (this.chosen === null) return this.#entries(id, position);
    const { logprob, rank } = this.source(this.seed, id, position, 0);
    const entries = [{ id, text: this.#textOf(id), logprob, rank }];
    const most = Math.log1p(-Math.exp(logprob)) - Math.log(CHOSEN_MOST);
    for (const other of new Set(this.chosen)) {
      if (other === id) continue;
      const distance = (SPREAD * mix(this.seed ^ other, position)) / 2 ** 32;
      entries.push({ id: other, text: this.#textOf(other), logprob: Math.fround(most - distance), rank: 0 });
    }
    return entries;
  }

  /** Returns the sampled token, then the most likely tokens other than it. */
  #entries(id: number, position: number, prompt = false, count = this.#count): Entry[] {
    const { logprob, rank, ids, logprobs } = this.source(this.seed, id, position, count, prompt);
    const entries = [{ id, text: this.#textOf(id), logprob, rank }];
    ids.forEach((other, i) => {
      if (other !== id) entries.push({ id: other, text: this.#textOf(other), logprob: logprobs[i]!, rank: i + 1 });
    });
    return entries;
  }

  #shown(id: number, text: string): string {
    return this.asIds ? `token_id:${id}` : text;
  }

  /**
   * Returns the text of a token. A token that completes a character has the text of that character. A token that is only a part
   * of one has an empty text (vLLM 0.33, `v1/engine/logprobs.py`).
   */
  #textOf(id: number): string {
    const piece = this.vocabulary.freshPiece(id);
    if (piece !== undefined) return piece;
    for (let count = 1; count <= this.#recent.length; count++) {
      const context = this.#recent.slice(-count);
      const whole = this.#decode([...context, id]);
      if (whole.endsWith(REPLACEMENT)) continue;
      // Earlier tokens without a whole character had an empty text. Their bytes belong to the text of this token.
      let clean = context.length;
      while (clean > 0 && this.#decode([context[clean - 1]!]).endsWith(REPLACEMENT)) clean--;
      return whole.slice(this.#decode(context.slice(0, clean)).length);
    }
    return "";
  }

  #decode(ids: readonly number[]): string {
    return Buffer.concat(ids.map((id) => this.vocabulary.bytesOf(id).slice())).toString();
  }

  #remember(id: number): void {
    this.#recent.push(id);
    if (this.#recent.length > CONTEXT) this.#recent.shift();
  }
}

/** Yields a text per token, separated by commas. `candidates`: of each token, which limit the tokens in a part. */
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

function number(value: number): string {
  return reprFloat(Math.max(value, FLOOR));
}

const encoder = new TextEncoder();

function bytesOf(text: string): string {
  return `[${encoder.encode(text).join(",")}]`;
}
