/** Provides what the LLM models share: the server's only engine, its text model, and functions that start sequences. */

import type { Generation, Receiver, Submission, TokenSource } from "../../../engine/interface/types.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { NaturalLength } from "../../../text/answers/answers.ts";
import { SteeredAnswer, type Steering } from "../../../text/answers/steered.ts";
import { written } from "../../../text/answers/written.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { TextModel } from "../../../text/text-model.ts";
import type { LogprobSource } from "../../openai/request/logprob-source.ts";
import { steeredLength } from "../../openai/request/steering.ts";

export interface LlmDeps {
  readonly backend: Pick<Backend, "submit" | "nowUs" | "after">;
  readonly text: Pick<TextModel, "encoder" | "vocabulary" | "answers" | "tokenizerInfo">;
  readonly naturalLength: NaturalLength;
  readonly logprobs: LogprobSource;
  readonly nextSeed: () => number;
  /** Most tokens of prompt and answer together. */
  readonly maxModelLen: number;
  readonly blockSize: number;
  /** Dimensions of an embedding if the request does not set them. Null: the model has no embeddings. */
  readonly embeddingSize: number | null;
  /** Number of tokens per image. Null: images are refused. */
  readonly imageTokens: number | null;
  /** Same as in `VersionFacts`. */
  readonly losesSamplingErrors: boolean;
  readonly log: (line: string) => void;
}

type LimitName = "maxTokens" | "minTokens" | "ignoreEos" | "stopTokenIds";

/** A sequence for the engine to generate. `id` "": an id derived from the order of submission. */
export interface EngineSequence extends Pick<Generation, "promptIds" | "seed" | "cacheSalt" | "choices" | LimitName> {
  readonly id: string;
  /** Rules for tokens that must or must not occur. Null: no rules. */
  readonly steering: Steering | null;
  /** Token ids of an answer that was written in advance. Null: the engine draws the answer. */
  readonly written: Uint32Array | null;
}

/** Submits a sequence. Throws if the engine refuses it. */
export function generateSequence(deps: LlmDeps, wanted: EngineSequence, receiver: Receiver): Submission {
  const { backend, maxModelLen } = deps;
  const { id, steering: _, written: ready, ...sequence } = wanted;
  const natural = wanted.ignoreEos ? null : deps.naturalLength(wanted.seed);
  const maxTokens = Math.min(wanted.maxTokens, maxModelLen - wanted.promptIds.length);
  const script = scriptOf(deps, wanted, natural, maxTokens);
  const submitted = backend.submit(
    {
      ...sequence,
      ...(id === "" ? {} : { id }),
      maxTokens,
      minTokens: ready === null ? wanted.minTokens : 0,
      plannedTokens: ready === null ? natural : null,
      priority: 0,
      skipReadingPrefixCache: false,
      arrivalUs: backend.nowUs(),
      ...(script ? { script } : {}),
    },
    receiver,
  );
  if ("refused" in submitted) throw new Error(`the engine is ${submitted.refused}`);
  return submitted;
}

/**
 * Returns the source of the answer's tokens, like `servers/openai/request/generation.ts` for the OpenAI routes. Null: the
 * engine draws them.
 */
function scriptOf(
  { text }: LlmDeps,
  { written: writtenIds, steering, seed, minTokens }: EngineSequence,
  natural: number | null,
  maxTokens: number,
): TokenSource | null {
  const { eosId } = text.vocabulary;
  if (writtenIds !== null) {
    const ids = new Uint32Array(writtenIds.length + 1).fill(eosId);
    ids.set(writtenIds);
    return ids;
  }
  if (steering === null) return null;
  const planned = natural === null ? null : Math.max(natural, minTokens + 1);
  return new SteeredAnswer(text.answers, seed, steeredLength(steering, planned, maxTokens, eosId), steering);
}

/** Returns per seed the token ids of a text that satisfies the constraint. Returns nulls without a constraint. */
export async function constrained(
  { text }: LlmDeps,
  structure: Structure | null,
  seeds: readonly number[],
): Promise<readonly (Uint32Array | null)[]> {
  return structure === null ? seeds.map(() => null) : written(text.encoder, structure, seeds);
}

/**
 * Combines updates of the sequences of a request. `notify` is called once per step if the request streams, else once at the
 * end.
 */
export class StepNotifier {
  #left: number;
  #waiting = false;

  constructor(
    readonly count: number,
    readonly streams: boolean,
    readonly notify: (ended: boolean) => void,
  ) {
    this.#left = count;
  }

  report(ended: boolean): void {
    if (ended) this.#left--;
    if (!this.streams) {
      if (this.#left === 0) this.notify(true);
    } else if (this.count === 1) this.notify(ended);
    else if (!this.#waiting) {
      this.#waiting = true;
      queueMicrotask(() => {
        this.#waiting = false;
        this.notify(this.#left === 0);
      });
    }
  }
}
