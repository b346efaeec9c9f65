/** What do LLM models find around them? The server's one engine, its text, and how both are asked. */

import type { Choices, Receiver, Submission, TokenSource } from "../../../engine/interface/types.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { NaturalLength } from "../../../text/answers/answers.ts";
import { SteeredAnswer, type Steering } from "../../../text/answers/steered.ts";
import { written } from "../../../text/answers/written.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { TextModel } from "../../../text/text-model.ts";
import type { LogprobSource } from "../../openai/request/logprob-source.ts";
import { steeredLength } from "../../openai/request/steering.ts";

export interface LlmAround {
  readonly backend: Pick<Backend, "submit" | "nowUs" | "after">;
  readonly text: Pick<TextModel, "encoder" | "vocabulary" | "answers" | "tokenizerInfo">;
  readonly naturalLength: NaturalLength;
  readonly logprobs: LogprobSource;
  readonly nextSeed: () => number;
  /** Tokens of prompt and answer together. */
  readonly maxModelLen: number;
  readonly blockSize: number;
  /** Numbers of a vector where nobody says how many; null: there are none. */
  readonly embeddingSize: number | null;
  /** Tokens that stand for an image; null: images are refused. */
  readonly imageTokens: number | null;
  /** As the version stood in for: `VersionFacts`. */
  readonly losesSamplingErrors: boolean;
  readonly log: (line: string) => void;
}

/** One sequence that the engine is to make. */
export interface Wanted {
  /** "": its place in the order of submission is its name. */
  readonly id: string;
  readonly promptIds: Uint32Array;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly stopTokenIds: readonly number[];
  readonly seed: number;
  /** Tokens that may not come, or that alone may; null: any. */
  readonly steering: Steering | null;
  /** What it says, where that was made beforehand; null: it is drawn. */
  readonly written: Uint32Array | null;
  /** Prompts with different salts share no blocks. */
  readonly salt: string;
  readonly choices?: Choices;
}

/** Throws where the engine does not take it. */
export function generateSequence(around: LlmAround, wanted: Wanted, receiver: Receiver): Submission {
  const { backend, maxModelLen } = around;
  const natural = wanted.ignoreEos ? null : around.naturalLength(wanted.seed);
  const maxTokens = Math.min(wanted.maxTokens, maxModelLen - wanted.promptIds.length);
  const script = scriptOf(around, wanted, natural, maxTokens);
  const submitted = backend.submit(
    {
      ...(wanted.id === "" ? {} : { id: wanted.id }),
      promptIds: wanted.promptIds,
      maxTokens,
      minTokens: wanted.written === null ? wanted.minTokens : 0,
      ignoreEos: wanted.ignoreEos,
      plannedTokens: wanted.written === null ? natural : null,
      stopTokenIds: wanted.stopTokenIds,
      seed: wanted.seed,
      priority: 0,
      cacheSalt: wanted.salt,
      skipReadingPrefixCache: false,
      arrivalUs: backend.nowUs(),
      ...(wanted.choices ? { choices: wanted.choices } : {}),
      ...(script ? { script } : {}),
    },
    receiver,
  );
  if ("refused" in submitted) throw new Error(`the engine is ${submitted.refused}`);
  return submitted;
}

/** As of a request to the OpenAI routes: `servers/openai/request/generation.ts`. */
function scriptOf(
  { text }: LlmAround,
  { written: made, steering, seed, minTokens }: Wanted,
  natural: number | null,
  maxTokens: number,
): TokenSource | null {
  const { eosId } = text.vocabulary;
  if (made !== null) {
    const ids = new Uint32Array(made.length + 1).fill(eosId);
    ids.set(made);
    return ids;
  }
  if (steering === null) return null;
  const planned = natural === null ? null : Math.max(natural, minTokens + 1);
  return new SteeredAnswer(text.answers, seed, steeredLength(steering, planned, maxTokens, eosId), steering);
}

/** Ids of the text that a constraint asks for, by seed; nulls where there is none. */
export async function constrained(
  { text }: LlmAround,
  structure: Structure | null,
  seeds: readonly number[],
): Promise<readonly (Uint32Array | null)[]> {
  return structure === null ? seeds.map(() => null) : written(text.encoder, structure, seeds);
}

/** Sequences whose news go out together: `tell` is called once a step where they stream, else at the end. */
export class StepNews {
  #left: number;
  #waiting = false;

  constructor(
    readonly count: number,
    readonly streams: boolean,
    readonly tell: (ended: boolean) => void,
  ) {
    this.#left = count;
  }

  news(ended: boolean): void {
    if (ended) this.#left--;
    if (!this.streams) {
      if (this.#left === 0) this.tell(true);
    } else if (this.count === 1) this.tell(ended);
    else if (!this.#waiting) {
      this.#waiting = true;
      queueMicrotask(() => {
        this.#waiting = false;
        this.tell(this.#left === 0);
      });
    }
  }
}
