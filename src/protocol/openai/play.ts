/**
 * How is an ordered answer played? The core gets its ids step by step; what happens around them, as in the engine behind the
 * recordings, happens here: errors of the engine, outputs that pile up, an engine that stands still or dies, repetition.
 */
import type { Script, Sequence } from "../../content/script.ts";
import { Finish, type Generation, type Receiver, SAME_STEP, type Submission } from "../../engine/types.ts";
import type { Repetition } from "../request.ts";
import type { LogprobSource } from "./front.ts";
import { repeatedAfter } from "./repetition.ts";

/** What a script may do to the engine. */
export interface Stage {
  standStill(still: boolean): void;
  /** The engine goes on after so long. */
  releaseIn(seconds: number): void;
  die(): void;
}

/** A choice that is played. */
export interface Played extends Receiver {
  submission: Submission | null;
}

/** Its ids for the core: to be followed by ends of sequence where these do not end it. */
export function scriptIds(
  { steps }: Sequence,
  { maxTokens, ignoreEos }: Pick<Generation, "maxTokens" | "ignoreEos">,
  eosId: number,
): Uint32Array {
  const ids: number[] = [];
  for (const step of steps) {
    for (let i = 0; i < step.length - 1; i++) ids.push(step[i]! + SAME_STEP);
    ids.push(step.at(-1)!);
  }
  const least = ignoreEos ? maxTokens : 1;
  while (ids.length < least) ids.push(eosId);
  return Uint32Array.from(ids);
}

/** Outputs that pile up before the client's side takes them: all choices of a request hear in one go, in their order. */
export class Together {
  readonly #tellers: ((() => void) | undefined)[] = [];
  readonly #choices: number;
  #places = 0;
  #ended = 0;

  constructor(choices: number) {
    this.#choices = choices;
  }

  place(): number {
    return this.#places++;
  }

  ended(place: number, tell: () => void): void {
    this.#tellers[place] = tell;
    if (++this.#ended === this.#choices) for (const teller of this.#tellers) teller?.();
  }
}

/** Stands between the engine and a choice of a request with a script. */
export class PlayedReceiver implements Receiver {
  readonly #choice: Played;
  readonly #sequence: Sequence;
  readonly #script: Script;
  readonly #stage: Stage;
  readonly #repetition: Repetition | null;
  readonly #together: Together | null;
  readonly #place: number;
  readonly #said: number[] = [];
  #steps = 0;
  #over = false;

  /** `together`: outputs are kept back until those of all choices are there. */
  constructor(
    choice: Played,
    script: Script,
    sequence: Sequence,
    stage: Stage,
    repetition: Repetition | null,
    together: Together | null,
  ) {
    this.#place = together?.place() ?? 0;
    this.#together = together;
    this.#choice = choice;
    this.#script = script;
    this.#sequence = sequence;
    this.#stage = stage;
    this.#repetition = repetition;
  }

  get streams(): boolean {
    return this.#choice.streams === true;
  }

  get bytes(): number {
    return this.#choice.bytes ?? 0;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.#over) return;
    const from = this.#said.length;
    for (let i = at; i < at + count; i++) this.#said.push(ids[i]!);
    this.#steps++;
    const repeated = this.#repetition && repeatedAfter(this.#said, from, this.#repetition, finish !== null);
    if (repeated !== null) this.#said.length = repeated;
    const wanted = this.#steps >= this.#sequence.steps.length ? this.#sequence.finish : "stop";
    // The error overtakes what its step gave, as it does in vLLM, where both wait for the client's side.
    if (finish === null && repeated === null && (wanted === "error" || wanted === "rejected")) {
      this.#fail(wanted);
      return;
    }
    const cut = finish === null && wanted === "length" ? Finish.Length : null;
    const ended = repeated === null ? cut : Finish.Repetition;
    const end = ended ?? finish;
    if (this.#together === null) this.#choice.onTokens(ids, at, this.#said.length - from, end, stopTokenId);
    else if (end !== null) {
      const said = Int32Array.from(this.#said);
      this.#together.ended(this.#place, () => this.#choice.onTokens(said, 0, said.length, end, stopTokenId));
    }
    if (ended !== null) this.#end(ended);
    if (end !== null) this.#over = true;
    else this.#after();
  }

  /** What the script wants between this step and the next. */
  #after(): void {
    const { holdAfter, releaseAfterS, diesAtStep } = this.#script;
    if (this.#steps === diesAtStep) this.#stage.die();
    if (this.#steps !== holdAfter) return;
    this.#stage.standStill(true);
    if (releaseAfterS !== null) this.#stage.releaseIn(releaseAfterS);
  }

  #fail(how: "error" | "rejected"): void {
    this.#over = true;
    const { submission } = this.#choice;
    if (how === "rejected" && submission?.reject) submission.reject(this.#said.length);
    else this.#end(Finish.Error);
    const tell = () => this.#choice.onTokens(new Int32Array(0), 0, 0, Finish.Error, -1);
    if (this.#together === null) tell();
    else this.#together.ended(this.#place, tell);
  }

  #end(reason: Finish): void {
    this.#choice.submission?.finish(reason, this.#said.length);
  }
}

/**
 * Log probabilities by a formula that a test can compute: at position p the token t has rank 2 if p mod 3 is 2, else 0; the
 * j-th most likely is t + 7 (j - rank), modulo the vocabulary, with -0.5 (j + 1) - 0.125 (p mod 4). Ranks count from 0 here.
 */
export function rankedLogprobs(vocabularySize: number, minusInfinityAt: readonly number[]): LogprobSource {
  return (_seed, id, position, count, prompt) => {
    const rank = position % 3 === 2 ? 2 : 0;
    const scoreOf = (j: number) => -0.5 * (j + 1) - 0.125 * (position % 4);
    const logprob = !prompt && minusInfinityAt.includes(position) ? Number.NEGATIVE_INFINITY : scoreOf(rank);
    const ids = Array.from({ length: count }, (_, j) => (id + 7 * (j - rank) + 7 * vocabularySize) % vocabularySize);
    return { logprob, rank: rank + 1, ids, logprobs: ids.map((_, j) => scoreOf(j)) };
  };
}
