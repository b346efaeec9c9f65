/**
 * Plays the script of an ordered answer. The core gets its token ids step by step. This file adds the other effects of a script:
 * errors of the engine, outputs that arrive late or together, an engine that stands still or dies, and repetition.
 */

import { Finish, type Generation, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import type { Backend } from "../../../kernel/backend.ts";
import { IdSet } from "../../../text/answers/id-set.ts";
import type { Script, Sequence } from "../../../text/canned/script.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import type { Repetition } from "../request/request.ts";
import { OutputTokens } from "./repetition.ts";

/** The engine as scripts see it. */
export interface Stage {
  /** Stops the engine, or lets it continue. */
  standStill(still: boolean): void;
  /** Lets the engine continue after this time. */
  releaseIn(seconds: number): void;
  /** Calls `act` after this time. */
  later(us: number, act: () => void): void;
  nowUs(): number;
  /** Kills the engine. */
  die(): void;
}

/** Returns the stage of a server's engines. */
export const stageOf = (backend: Backend): Stage => ({
  standStill: (still) => backend.standStill?.(still),
  releaseIn: (seconds) => void backend.after?.(seconds * 1e6, () => backend.standStill?.(false)),
  die: () => backend.die?.(),
  later: (us, act) => void (backend.after?.(us, act) ?? act()),
  nowUs: () => backend.nowUs(),
});

/** A choice that a script answers. */
export interface PlayedChoice extends Receiver {
  readonly index: number;
  readonly submission: Submission | null;
  /** The end that the client has got, or an abort. Null: it has not ended. */
  readonly finish: Finish | null;
}

/** Returns the ids of a choice for the core. Adds end-of-sequence, so that it ends; with `ignore_eos` up to `maxTokens`. */
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

/** Holds back the outputs of all choices of a request until the last one has ended. Then passes them on, choice by choice. */
export class JointOutputs {
  readonly #ends: ((() => void) | undefined)[] = [];
  #places = 0;
  #ended = 0;

  constructor(private readonly choices: number) {}

  /** Reserves a place in the order for a choice. */
  place(): number {
    return this.#places++;
  }

  /** Notes the end of a choice. `passOn`: passes on its outputs. */
  ended(place: number, passOn: () => void): void {
    this.#ends[place] = passOn;
    if (++this.#ended === this.choices) for (const end of this.#ends) end?.();
  }
}

/** Settings for the script of a choice. */
interface PlaySettings {
  readonly script: Script;
  readonly stage: Stage;
  readonly repetition: Repetition | null;
  /** Holds back the outputs of all choices. Null: each is passed on when it is due. */
  readonly together: JointOutputs | null;
  /** Time of the request's arrival. */
  readonly arrivalUs: number;
}

/** Stands between the engine and a choice, and plays the script of the choice. */
export class PlayedReceiver extends ReceiverBefore {
  readonly #place: number;
  readonly #tokens: OutputTokens;
  #steps = 0;
  #over = false;
  /** Outputs that wait for their times, earliest first. */
  readonly #late: { readonly dueUs: number; readonly passOn: () => void }[] = [];

  constructor(
    private readonly choice: PlayedChoice,
    private readonly sequence: Sequence,
    private readonly settings: PlaySettings,
  ) {
    super(choice);
    this.#place = settings.together?.place() ?? 0;
    this.#tokens = new OutputTokens(settings.repetition);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.#over) return;
    const { together } = this.settings;
    const from = this.#tokens.ids.length;
    const repeated = this.#tokens.add(ids, at, count, finish !== null);
    if (repeated !== null) this.#tokens.ids.length = repeated;
    this.#steps++;
    const wanted = this.#steps >= this.sequence.steps ? this.sequence.finish : "stop";
    // The error overtakes the output of its step, as in vLLM, where both wait for the API server.
    if (finish === null && repeated === null && (wanted === "error" || wanted === "rejected")) {
      this.#fail(wanted);
      return;
    }
    const cut = finish === null && wanted === "length" ? Finish.Length : null;
    const ended = repeated === null ? cut : Finish.Repetition;
    const end = ended ?? finish;
    if (together === null) this.#timed(ids, at, this.#tokens.ids.length - from, end, stopTokenId);
    else if (end !== null) {
      const all = Int32Array.from(this.#tokens.ids);
      together.ended(this.#place, () => this.next.onTokens(all, 0, all.length, end, stopTokenId));
    }
    if (ended !== null) this.#end(ended);
    if (end !== null) this.#over = true;
    else this.#after();
  }

  /** Passes an output on at the time that the script sets. The engine does not wait for it. */
  #timed(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const { timesMs } = this.sequence;
    const { stage, arrivalUs } = this.settings;
    const ms = timesMs[Math.min(this.#steps, timesMs.length) - 1];
    const dueUs = ms === undefined ? 0 : arrivalUs + ms * 1000;
    if (this.#late.length === 0 && dueUs <= stage.nowUs()) {
      this.next.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    const kept = ids.slice(at, at + count);
    this.#late.push({ dueUs, passOn: () => this.next.onTokens(kept, 0, count, finish, stopTokenId) });
    if (this.#late.length === 1) this.#await();
  }

  /** Passes on late outputs when they are due, until none is left or the choice has ended for its client. */
  #await(): void {
    const { stage } = this.settings;
    stage.later(this.#late[0]!.dueUs - stage.nowUs(), () => {
      while (this.choice.finish === null && this.#late.length > 0 && this.#late[0]!.dueUs <= stage.nowUs())
        this.#late.shift()!.passOn();
      if (this.choice.finish !== null) this.#late.length = 0;
      if (this.#late.length > 0) this.#await();
    });
  }

  /** Applies the effects that the script wants after this step. */
  #after(): void {
    const { script, stage } = this.settings;
    const { holdAfter, releaseAfterS, diesAtStep } = script;
    if (this.#steps === diesAtStep) stage.die();
    if (this.#steps !== holdAfter) return;
    stage.standStill(true);
    if (releaseAfterS !== null) stage.releaseIn(releaseAfterS);
  }

  #fail(how: "error" | "rejected"): void {
    this.#over = true;
    const { submission } = this.choice;
    if (how === "rejected" && submission?.reject) submission.reject(this.#tokens.ids.length);
    else this.#end(Finish.Error);
    const { together } = this.settings;
    const none = new Int32Array(0);
    if (together === null) this.#timed(none, 0, 0, Finish.Error, -1);
    else together.ended(this.#place, () => this.next.onTokens(none, 0, 0, Finish.Error, -1));
  }

  #end(reason: Finish): void {
    this.choice.submission?.finish(reason, this.#tokens.ids.length);
  }
}

/**
 * Returns a source of log probabilities by a formula that a test can compute. At position p the token t has rank 2 if p mod 3 is
 * 2, otherwise rank 0. The j-th most likely token is t + 7 (j - rank), modulo the vocabulary, and has the log probability
 * -0.5 (j + 1) - 0.125 (p mod 4). Here ranks count from 0. `minusInfinityAt`: output positions whose token has -Infinity.
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
