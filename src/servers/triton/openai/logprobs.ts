/** Converts log probabilities of vLLM's backend, which are JSON text, to the formats of OpenAI's API. */

interface Candidate {
  readonly logprob: number;
  readonly rank: number;
  readonly decoded_token: string;
}

/** Returns the candidates of each token in order, the sampled one first. */
function tokensIn(text: string): Candidate[][] {
  if (text === "null" || text === "") return [];
  // JavaScript would reorder members with numeric names.
  const ordered = text.replace(/"(\d+)": \{/g, '"t$1": {');
  return (JSON.parse(ordered) as Record<string, Candidate>[]).map((token) => Object.values(token));
}

const shown = ({ decoded_token: token, logprob }: Candidate) => ({ token, logprob, bytes: [...Buffer.from(token)] });

export function chatLogprobs(text: string, most: number): object | null {
  const tokens = tokensIn(text);
  if (tokens.length === 0) return null;
  return {
    content: tokens.map((all) => ({
      ...shown(all[0]!),
      top_logprobs: [...all]
        .sort((a, b) => a.rank - b.rank)
        .slice(0, most)
        .map(shown),
    })),
  };
}

/** Formats log probabilities of a completion. `from`: number of characters in the answer before these tokens. */
export function completionLogprobs(text: string, from: number): object | null {
  const tokens = tokensIn(text);
  if (tokens.length === 0) return null;
  let at = from;
  return {
    text_offset: tokens.map(([one]) => {
      const offset = at;
      at += one!.decoded_token.length;
      return offset;
    }),
    token_logprobs: tokens.map(([one]) => one!.logprob),
    tokens: tokens.map(([one]) => one!.decoded_token),
    top_logprobs: tokens.map((all) => Object.fromEntries(all.map((one) => [one.decoded_token, one.logprob]))),
  };
}
