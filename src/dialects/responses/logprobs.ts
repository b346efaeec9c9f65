/** How do log probabilities stand in a response? From chat's, whose entries have the same members in another order. */
import type { Logprobs, TextParts } from "../../generation/logprobs.ts";
import { reprFloat } from "../../python/repr.ts";
import { quotedJson } from "./items.ts";

interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs?: readonly Entry[];
}

const entriesOf = (chat: string): readonly Entry[] =>
  (JSON.parse(chat) as { readonly content: readonly Entry[] }).content;

/** Logprobs of a finished part: JSON of each token's entry. */
export function partLogprobs(chat: string): string[] {
  const entry = ({ token, bytes, logprob }: Entry) =>
    `"token":${quotedJson(token)},"bytes":[${bytes}],"logprob":${reprFloat(logprob)}`;
  return entriesOf(chat).map((one) => {
    const others = (one.top_logprobs ?? []).map((other) => `{${entry(other)}}`);
    return `{${entry(one)},"top_logprobs":[${others}]}`;
  });
}

/** Tokens whose entries are made at a time. */
const TOKENS_OF_A_PART = 32;

/** JSON of the list of all entries of an answer, part by part. */
export function* partsOfLogprobs(source: Logprobs, ids: readonly number[]): TextParts {
  yield "[";
  for (let at = 0; at < ids.length; at += TOKENS_OF_A_PART) {
    const entries = partLogprobs(source.chat(ids.slice(at, at + TOKENS_OF_A_PART), at));
    yield `${at === 0 ? "" : ","}${entries}`;
  }
  yield "]";
}

/** Logprobs of a piece of a stream: JSON of each token's entry. */
export function streamLogprobs(chat: string): string[] {
  const entry = ({ token, logprob }: Entry) => `"token":${quotedJson(token)},"logprob":${reprFloat(logprob)}`;
  return entriesOf(chat).map((one) => {
    const others = (one.top_logprobs ?? []).map((other) => `{${entry(other)}}`);
    return `{${entry(one)},"top_logprobs":[${others}]}`;
  });
}
