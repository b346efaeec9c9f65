/** How do log probabilities stand in a response? From chat's, whose entries have the same members in another order. */
import type { Logprobs, TextParts } from "../../openai/request/logprobs.ts";
import { reprFloat } from "../../pydantic/repr.ts";
import { quotedJson } from "./repeated.ts";

interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs?: readonly Entry[];
}

const entriesIn = (chat: string) => (JSON.parse(chat) as { readonly content: readonly Entry[] }).content;

/** JSON of these entries with commas between; with their bytes in a finished part, without them in a piece of a stream. */
function entriesText(entries: readonly Entry[], withBytes: boolean): string {
  const entry = ({ token, bytes, logprob }: Entry) =>
    `"token":${quotedJson(token)},${withBytes ? `"bytes":[${bytes}],` : ""}"logprob":${reprFloat(logprob)}`;
  const texts = entries.map((one) => {
    const others = (one.top_logprobs ?? []).map((other) => `{${entry(other)}}`);
    return `{${entry(one)},"top_logprobs":[${others}]}`;
  });
  return texts.join();
}

/** Tokens whose entries are made at a time: each has some twenty candidates, which are made, read and printed again. */
const TOKENS_OF_A_PART = 4;

/** JSON of the list of all entries of an answer, part by part. */
export function* partsOfLogprobs(source: Logprobs, ids: readonly number[]): TextParts {
  yield "[";
  for (let at = 0; at < ids.length; at += TOKENS_OF_A_PART) {
    const entries = entriesIn(source.chat(ids.slice(at, at + TOKENS_OF_A_PART), at));
    yield `${at === 0 ? "" : ","}${entriesText(entries, true)}`;
  }
  yield "]";
}

/** Tokens that were shown together. */
interface Shown {
  readonly ids: readonly number[];
  /** Output tokens before them. */
  readonly from: number;
  /** Place of the item in whose text they stand; -1: in none that has log probabilities. */
  readonly item: number;
  /** JSON of their entries with bytes; null: to be made again. */
  text: string | null;
}

const KEPT_MOST = 64 * 2 ** 20;
let keptByAll = 0;

/** The log probabilities of one stream. Its last events repeat them: kept until then, or made again where all streams keep too many. */
export class StreamedLogprobs {
  readonly #anew: () => Logprobs;
  readonly #source: Logprobs;
  readonly #keptMost: number;
  readonly #shown: Shown[] = [];
  readonly #tokens: number[] = [];
  #kept = 0;
  #keeps = true;

  /** `keptMost`: characters of all streams together. */
  constructor(anew: () => Logprobs, keptMost = KEPT_MOST) {
    this.#keptMost = keptMost;
    this.#anew = anew;
    this.#source = anew();
  }

  /** Tokens of an item's text that were shown so far. */
  tokensOf(item: number): number {
    return this.#tokens[item] ?? 0;
  }

  /** Counts tokens of an item's text; gives what makes their entries as a piece of the stream shows them, once. */
  show(ids: readonly number[], from: number, item: number): () => TextParts {
    this.#tokens[item] = this.tokensOf(item) + ids.length;
    return () => this.#parts(ids, from, item);
  }

  passOver(ids: readonly number[], from: number): void {
    this.#source.passOver(ids);
    this.#shown.push({ ids, from, item: -1, text: null });
  }

  /** JSON of the list of an item's entries. */
  *listOf(item: number): TextParts {
    const source = this.#keeps ? null : this.#anew();
    let separator = "[";
    for (const { ids, from, item: of, text } of this.#shown) {
      if (of === item) {
        yield separator + (text ?? entriesText(entriesIn(source!.chat(ids, from)), true));
        separator = ",";
      } else source?.passOver(ids);
    }
    yield separator === "[" ? "[]" : "]";
  }

  /** The stream is over. */
  drop(): void {
    this.#keeps = false;
    keptByAll -= this.#kept;
    this.#kept = 0;
    for (const shown of this.#shown) shown.text = null;
  }

  *#parts(ids: readonly number[], from: number, item: number): TextParts {
    for (let at = 0; at < ids.length; at += TOKENS_OF_A_PART) {
      const some = ids.slice(at, at + TOKENS_OF_A_PART);
      const entries = entriesIn(this.#source.chat(some, from + at));
      const shown: Shown = { ids: some, from: from + at, item, text: null };
      this.#shown.push(shown);
      if (this.#keeps) this.#keep(shown, entriesText(entries, true));
      yield `${at === 0 ? "" : ","}${entriesText(entries, false)}`;
    }
  }

  #keep(shown: Shown, text: string): void {
    if (keptByAll + text.length > this.#keptMost) {
      this.drop();
      return;
    }
    shown.text = text;
    this.#kept += text.length;
    keptByAll += text.length;
  }
}
