/**
 * How is an ordered answer played? The core gets its ids step by step; what happens around them, as in the engine behind the
 * recordings, happens here: errors of the engine, outputs that pile up, an engine that stands still or dies, repetition.
 */

import { Finish, type Generation, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { IdSet } from "../../../text/answers/id-set.ts";
import type { Script, Sequence } from "../../../text/canned/script.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import type { Repetition } from "../request/request.ts";
import { SaidTokens } from "./repetition.ts";

/** What a script may do to the engine. */
export interface Stage {
  standStill(still: boolean): void;
  /** The engine goes on after so long. */
  releaseIn(seconds: number): void;
  /** Calls it so much later. */
  later(us: number, act: () => void): void;
  nowUs(): number;
  die(): void;
}

/** A choice that is played. */
export interface Played extends Receiver {
  readonly index: number;
  readonly submission: Submission | null;
  /** How it ended, as far as its client knows; an abort too. */
  readonly finish: Finish | null;
}

/** Ids of the choice for the core: to be followed by ends of sequence where these do not end it. */
export function scriptIds(
  { ids }: Sequence,
  { maxTokens, ignoreEos }: Pick<Generation, "maxTokens" | "ignoreEos">,
  eosId: number,
): Uint32Array {
  const least = ignoreEos ? maxTokens : 1;
  if (ids.length >= least) return ids;
  const longer = new Uint32Array(least).fill(eosId, ids.length);
  longer.set(ids);
  return longer;
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

/** How a choice is played. */
export interface Playing {
  readonly script: Script;
  readonly stage: Stage;
  readonly repetition: Repetition | null;
  /** Keeps outputs back until those of all choices are there; null: they go on at once. */
  readonly together: Together | null;
  /** When the request came. */
  readonly arrivalUs: number;
}

/** Stands between the engine and a choice of a request with a script. */
export class PlayedReceiver extends ReceiverBefore {
  readonly #choice: Played;
  readonly #sequence: Sequence;
  readonly #playing: Playing;
  readonly #place: number;
  readonly #said: SaidTokens;
  #steps = 0;
  #over = false;
  /** Outputs that wait for their times, which do not fall. */
  readonly #late: { readonly dueUs: number; readonly tell: () => void }[] = [];

  constructor(choice: Played, sequence: Sequence, playing: Playing) {
    super(choice);
    this.#choice = choice;
    this.#sequence = sequence;
    this.#playing = playing;
    this.#place = playing.together?.place() ?? 0;
    this.#said = new SaidTokens(playing.repetition);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.#over) return;
    const { together } = this.#playing;
    const from = this.#said.ids.length;
    const repeated = this.#said.add(ids, at, count, finish !== null);
    if (repeated !== null) this.#said.ids.length = repeated;
    this.#steps++;
    const wanted = this.#steps >= this.#sequence.steps ? this.#sequence.finish : "stop";
    // The error overtakes what its step gave, as it does in vLLM, where both wait for the client's side.
    if (finish === null && repeated === null && (wanted === "error" || wanted === "rejected")) {
      this.#fail(wanted);
      return;
    }
    const cut = finish === null && wanted === "length" ? Finish.Length : null;
    const ended = repeated === null ? cut : Finish.Repetition;
    const end = ended ?? finish;
    if (together === null) this.#timed(ids, at, this.#said.ids.length - from, end, stopTokenId);
    else if (end !== null) {
      const said = Int32Array.from(this.#said.ids);
      together.ended(this.#place, () => this.next.onTokens(said, 0, said.length, end, stopTokenId));
    }
    if (ended !== null) this.#end(ended);
    if (end !== null) this.#over = true;
    else this.#after();
  }

  /** Hands an output on when its time has come. The engine has gone on by then. */
  #timed(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const { timesMs } = this.#sequence;
    const { stage, arrivalUs } = this.#playing;
    const ms = timesMs[Math.min(this.#steps, timesMs.length) - 1];
    const dueUs = ms === undefined ? 0 : arrivalUs + ms * 1000;
    if (this.#late.length === 0 && dueUs <= stage.nowUs()) {
      this.next.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    const kept = ids.slice(at, at + count);
    this.#late.push({ dueUs, tell: () => this.next.onTokens(kept, 0, count, finish, stopTokenId) });
    if (this.#late.length === 1) this.#await();
  }

  /** Hands on what is due, until there is nothing left or its client has gone. */
  #await(): void {
    const { stage } = this.#playing;
    stage.later(this.#late[0]!.dueUs - stage.nowUs(), () => {
      while (this.#choice.finish === null && this.#late.length > 0 && this.#late[0]!.dueUs <= stage.nowUs())
        this.#late.shift()!.tell();
      if (this.#choice.finish !== null) this.#late.length = 0;
      if (this.#late.length > 0) this.#await();
    });
  }

  /** What the script wants between this step and the next. */
  #after(): void {
    const { script, stage } = this.#playing;
    const { holdAfter, releaseAfterS, diesAtStep } = script;
    if (this.#steps === diesAtStep) stage.die();
    if (this.#steps !== holdAfter) return;
    stage.standStill(true);
    if (releaseAfterS !== null) stage.releaseIn(releaseAfterS);
  }

  #fail(how: "error" | "rejected"): void {
    this.#over = true;
    const { submission } = this.#choice;
    if (how === "rejected" && submission?.reject) submission.reject(this.#said.ids.length);
    else this.#end(Finish.Error);
    const { together } = this.#playing;
    const none = new Int32Array(0);
    if (together === null) this.#timed(none, 0, 0, Finish.Error, -1);
    else together.ended(this.#place, () => this.next.onTokens(none, 0, 0, Finish.Error, -1));
  }

  #end(reason: Finish): void {
    this.#choice.submission?.finish(reason, this.#said.ids.length);
  }
}

/**
 * Log probabilities by a formula that a test can compute: at position p the token t has rank 2 if p mod 3 is 2, else 0; the
 * j-th most likely is t + 7 (j - rank), modulo the vocabulary, with -0.5 (j + 1) - 0.125 (p mod 4). Ranks count from 0 here.
 */
export function rankedLogprobs(vocabularySize: number, minusInfinityAt: ArrayLike<number>): LogprobSource {
  const positions = Array.from(minusInfinityAt);
  const minusInfinity = new IdSet(
    positions.reduce((most, at) => Math.max(most, at + 1), 0),
    positions,
  );
  return (_seed, id, position, count, prompt) => {
    const rank = position % 3 === 2 ? 2 : 0;
    const scoreOf = (j: number) => -0.5 * (j + 1) - 0.125 * (position % 4);
    const logprob = !prompt && minusInfinity.has(position) ? Number.NEGATIVE_INFINITY : scoreOf(rank);
    const ids = Array.from({ length: count }, (_, j) => (id + 7 * (j - rank) + 7 * vocabularySize) % vocabularySize);
    return { logprob, rank: rank + 1, ids, logprobs: ids.map((_, j) => scoreOf(j)) };
  };
}
