/** How do log probabilities stand in a response? From chat's, whose entries have the same members in another order. */
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

/** Logprobs of a piece of a stream: JSON of each token's entry. */
export function streamLogprobs(chat: string): string[] {
  const entry = ({ token, logprob }: Entry) => `"token":${quotedJson(token)},"logprob":${reprFloat(logprob)}`;
  return entriesOf(chat).map((one) => {
    const others = (one.top_logprobs ?? []).map((other) => `{${entry(other)}}`);
    return `{${entry(one)},"top_logprobs":[${others}]}`;
  });
}
