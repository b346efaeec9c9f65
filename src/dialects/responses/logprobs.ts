/** How do log probabilities stand in a response? From chat's, whose entries have the same members in another order. */
import type { Logprobs, TextParts } from "../../generation/logprobs.ts";
import { reprFloat } from "../../python/repr.ts";
import { quotedJson } from "./repeated.ts";

interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs?: readonly Entry[];
}

/** JSON of each token's entry, with its bytes in a finished part, without them in a piece of a stream. */
export function logprobEntries(chat: string, withBytes: boolean): string[] {
  const entry = ({ token, bytes, logprob }: Entry) =>
    `"token":${quotedJson(token)},${withBytes ? `"bytes":[${bytes}],` : ""}"logprob":${reprFloat(logprob)}`;
  const { content } = JSON.parse(chat) as { readonly content: readonly Entry[] };
  return content.map((one) => {
    const others = (one.top_logprobs ?? []).map((other) => `{${entry(other)}}`);
    return `{${entry(one)},"top_logprobs":[${others}]}`;
  });
}

/** Tokens whose entries are made at a time: each has some twenty candidates, which are made, read and printed again. */
const TOKENS_OF_A_PART = 4;

/** JSON of the list of all entries of an answer, part by part. */
export function* partsOfLogprobs(source: Logprobs, ids: readonly number[]): TextParts {
  yield "[";
  for (let at = 0; at < ids.length; at += TOKENS_OF_A_PART) {
    const entries = logprobEntries(source.chat(ids.slice(at, at + TOKENS_OF_A_PART), at), true);
    yield `${at === 0 ? "" : ","}${entries}`;
  }
  yield "]";
}
