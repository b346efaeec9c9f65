/** The interface of a source of log probabilities. Types only. */

/** The most likely tokens at one position. */
export interface Candidates {
  /** Log probability of the sampled token, and its rank, from 1. */
  readonly logprob: number;
  readonly rank: number;
  /** The likeliest first; as many as asked for. The sampled token may be among them. */
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

/** `position` counts output tokens from 0; for prompt tokens it is the place in the prompt. */
export type LogprobSource = (
  seed: number,
  id: number,
  position: number,
  count: number,
  /** The token is one of the prompt. */
  prompt?: boolean,
) => Candidates;
