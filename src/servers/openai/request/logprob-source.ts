/** Types of a source of log probabilities. */

/** The sampled token and the most likely tokens at one position. */
export interface Candidates {
  /** Log probability of the sampled token. `rank` counts from 1. */
  readonly logprob: number;
  readonly rank: number;
  /** Tokens from the most likely one on, as many as requested. The sampled token may be among them. */
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

/** Returns log probabilities at a position, counted from 0 in the output, or in the prompt for a token of it. */
export type LogprobSource = (
  seed: number,
  id: number,
  position: number,
  count: number,
  /** True if the token belongs to the prompt. */
  prompt?: boolean,
) => Candidates;
