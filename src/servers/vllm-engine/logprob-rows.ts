/**
 * Makes log probabilities in the arrays that front ends read. A row is a token with its most likely alternatives. Source:
 * `LogprobsLists` and `LogprobsTensors` in `vllm/v1/outputs.py`, vLLM 0.33.0.
 */
import type { Pieces } from "../../base/pieces.ts";
import type { LogprobSource } from "../openai/request/logprob-source.ts";
import type { LogprobsArrays } from "./messages/outputs.ts";

/** Fills the arrays of `rows` tokens, of which each has `count` alternatives. */
class Rows {
  readonly #ids: Int32Array;
  readonly #logprobs: Float32Array;
  readonly #ranks: Int32Array;

  constructor(
    private readonly rows: number,
    private readonly count: number,
  ) {
    this.#ids = new Int32Array(rows * (count + 1));
    this.#logprobs = new Float32Array(rows * (count + 1));
    this.#ranks = new Int32Array(rows);
  }

  set(row: number, id: number, { logprob, rank, ids, logprobs }: ReturnType<LogprobSource>): void {
    const at = row * (this.count + 1);
    this.#ids[at] = id;
    this.#logprobs[at] = logprob;
    this.#ids.set(ids, at + 1);
    this.#logprobs.set(logprobs, at + 1);
    // Front ends read the token's value from the list, if it has the token.
    const listed = ids.indexOf(id);
    if (listed >= 0) this.#logprobs[at + 1 + listed] = logprob;
    this.#ranks[row] = rank;
  }

  /** `numpy`: with the names of numpy's types, as for output tokens. Prompt tokens have torch's. */
  arrays(numpy: boolean): LogprobsArrays {
    const table = [this.rows, this.count + 1];
    return {
      token_ids: { type: numpy ? "<i4" : "int32", shape: table, data: new Uint8Array(this.#ids.buffer) },
      logprobs: { type: numpy ? "<f4" : "float32", shape: table, data: new Uint8Array(this.#logprobs.buffer) },
      ranks: { type: numpy ? "<i4" : "int32", shape: [this.rows], data: new Uint8Array(this.#ranks.buffer) },
    };
  }
}

/** Makes the log probabilities of an answer's tokens. */
export class LogprobRows {
  constructor(
    private readonly source: LogprobSource,
    private readonly seed: number,
    private readonly count: number,
  ) {}

  /** `position`: of the first token in the answer. */
  of(ids: readonly number[], position: number): LogprobsArrays {
    const rows = new Rows(ids.length, this.count);
    for (const [row, id] of ids.entries()) rows.set(row, id, this.source(this.seed, id, position + row, this.count));
    return rows.arrays(true);
  }
}

/** Candidates between two turns of the event loop, in rows of one token. */
const CANDIDATES_OF_A_PIECE = 512;

/** Returns the log probabilities of a prompt: a row for each token after the first one. */
export function* promptLogprobs(
  source: LogprobSource,
  seed: number,
  prompt: Uint32Array,
  count: number,
): Pieces<LogprobsArrays> {
  const rows = new Rows(prompt.length - 1, count);
  const rowsOfAPiece = Math.max(1, Math.floor(CANDIDATES_OF_A_PIECE / (count + 1)));
  for (let at = 1; at < prompt.length; at++) {
    if (at % rowsOfAPiece === 0) yield;
    rows.set(at - 1, prompt[at]!, source(seed, prompt[at]!, at, count, true));
  }
  return rows.arrays(false);
}
