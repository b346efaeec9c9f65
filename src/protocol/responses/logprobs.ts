/** How do log probabilities stand in a response? From chat's, whose entries have the same members in another order. */
interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs?: readonly Entry[];
}

const entriesOf = (chat: string): readonly Entry[] =>
  (JSON.parse(chat) as { readonly content: readonly Entry[] }).content;

/** Of a finished part: JSON of each token's entry. */
export function partLogprobs(chat: string): string[] {
  return entriesOf(chat).map(({ token, logprob, bytes, top_logprobs: top = [] }) => {
    const others = top.map((one) => ({ token: one.token, bytes: one.bytes, logprob: one.logprob }));
    return JSON.stringify({ token, bytes, logprob, top_logprobs: others });
  });
}

/** Of a piece of a stream. */
export function streamLogprobs(chat: string): string[] {
  return entriesOf(chat).map(({ token, logprob, top_logprobs: top = [] }) => {
    const others = top.map((one) => ({ token: one.token, logprob: one.logprob }));
    return JSON.stringify({ token, logprob, top_logprobs: others });
  });
}
