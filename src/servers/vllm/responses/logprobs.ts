/** Writes log probabilities of responses. Converts those of a chat, whose entries have the same members in another order. */

import { quotedJson } from "../../../text/tokens/vocabulary.ts";
import type { Logprobs, TextParts } from "../../openai/request/logprobs.ts";
import { reprFloat } from "../../pydantic/repr.ts";

/** The entry of one token in the log probabilities of a chat. */
interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs?: readonly Entry[];
}

const entriesIn = (chat: string) => (JSON.parse(chat) as { readonly content: readonly Entry[] }).content;

/** Returns the JSON of entries, separated by commas. A finished part has the bytes of tokens, an event of a delta does not. */
function entriesText(entries: readonly Entry[], withBytes: boolean): string {
  const entry = ({ token, bytes, logprob }: Entry) =>
    `"token":${quotedJson(token)},${withBytes ? `"bytes":[${bytes}],` : ""}"logprob":${reprFloat(logprob)}`;
  const texts = entries.map((sampled) => {
    const candidates = (sampled.top_logprobs ?? []).map((candidate) => `{${entry(candidate)}}`);
    return `{${entry(sampled)},"top_logprobs":[${candidates}]}`;
  });
  return texts.join();
}

/** Tokens whose entries are made at a time. Each has about twenty candidates, which are written, parsed and written again. */
const TOKENS_OF_A_PART = 4;

/** Yields the JSON of the list of all entries of an answer. */
export function* partsOfLogprobs(source: Logprobs, ids: readonly number[]): TextParts {
  yield "[";
  for (let at = 0; at < ids.length; at += TOKENS_OF_A_PART) {
    const entries = entriesIn(source.chat(ids.slice(at, at + TOKENS_OF_A_PART), at));
    yield `${at === 0 ? "" : ","}${entriesText(entries, true)}`;
  }
  yield "]";
}

/** Output tokens of a stream that belong to the same output item. */
interface TokenGroup {
  readonly ids: readonly number[];
  /** Number of output tokens before the tokens of this group. */
  readonly from: number;
  /** Index of the output item that contains the text of the tokens. -1: no item with log probabilities contains it. */
  readonly item: number;
  /**
   * JSON of the tokens' log probabilities, with the bytes of each token. Null if the JSON was not kept and must be made again.
   */
  text: string | null;
}

/** UTF-16 units of JSON that all streams together keep. */
const KEPT_MOST = 64 * 2 ** 20;
/** UTF-16 units of JSON that all streams keep now. */
let keptByAll = 0;

/**
 * The log probabilities of one stream, which its last events repeat. They are kept until then, or made again if all streams
 * together would keep too much.
 */
export class StreamedLogprobs {
  readonly #newSource: () => Logprobs;
  readonly #source: Logprobs;
  readonly #keptMost: number;
  readonly #groups: TokenGroup[] = [];
  /** Number of tokens so far, by index of the item. */
  readonly #tokens: number[] = [];
  #kept = 0;
  #keeps = true;

  /** `newSource` returns a source that starts at the first token. `keptMost`: UTF-16 units that all streams together keep. */
  constructor(newSource: () => Logprobs, keptMost = KEPT_MOST) {
    this.#keptMost = keptMost;
    this.#newSource = newSource;
    this.#source = newSource();
  }

  /** Returns the number of tokens of an item's text so far. */
  tokensOf(item: number): number {
    return this.#tokens[item] ?? 0;
  }

  /** Adds tokens of an item's text. Returns a function, to be called once, that yields their entries for the event. */
  show(ids: readonly number[], from: number, item: number): () => TextParts {
    this.#tokens[item] = this.tokensOf(item) + ids.length;
    return () => this.#parts(ids, from, item);
  }

  /** Adds tokens whose log probabilities are not shown. */
  passOver(ids: readonly number[], from: number): void {
    this.#source.passOver(ids);
    this.#groups.push({ ids, from, item: -1, text: null });
  }

  /** Yields the JSON of the list of an item's entries. */
  *listOf(item: number): TextParts {
    const source = this.#keeps ? null : this.#newSource();
    let separator = "[";
    for (const { ids, from, item: groupItem, text } of this.#groups) {
      if (groupItem === item) {
        yield separator + (text ?? entriesText(entriesIn(source!.chat(ids, from)), true));
        separator = ",";
      } else source?.passOver(ids);
    }
    yield separator === "[" ? "[]" : "]";
  }

  /** Frees the kept entries, at the end of the stream or at the limit. */
  drop(): void {
    this.#keeps = false;
    keptByAll -= this.#kept;
    this.#kept = 0;
    for (const group of this.#groups) group.text = null;
  }

  *#parts(ids: readonly number[], from: number, item: number): TextParts {
    for (let at = 0; at < ids.length; at += TOKENS_OF_A_PART) {
      const part = ids.slice(at, at + TOKENS_OF_A_PART);
      const entries = entriesIn(this.#source.chat(part, from + at));
      const group: TokenGroup = { ids: part, from: from + at, item, text: null };
      this.#groups.push(group);
      if (this.#keeps) this.#keep(group, entriesText(entries, true));
      yield `${at === 0 ? "" : ","}${entriesText(entries, false)}`;
    }
  }

  #keep(group: TokenGroup, text: string): void {
    if (keptByAll + text.length > this.#keptMost) {
      this.drop();
      return;
    }
    group.text = text;
    this.#kept += text.length;
    keptByAll += text.length;
  }
}
