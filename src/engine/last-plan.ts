/** What did the last planned step hold? Noted when it is planned, so that its numbers agree whatever ends meanwhile. */
import { Word } from "../../assembly/layout.ts";
import type { Core } from "./wasm/core.ts";

export class LastPlan {
  readonly #words: Int32Array;
  /** Requests that ran or waited, the preempted among them. */
  requests = 0;
  /** Requests with tokens in the step, and how many of these were prompts. */
  scheduled = 0;
  prefills = 0;
  prefillTokens = 0;
  /** Preempted by this plan. */
  preempted = 0;
  /** Sum of the durations of all steps planned so far. */
  busyUs = 0;
  /** Steps that were taken in, and when the last one was: engine time, 0 before the first. */
  taken = 0;
  takenUs = 0;

  constructor({ views }: Core) {
    this.#words = views.words;
  }

  planned(durationUs: number): void {
    const words = this.#words;
    const rows = words[Word.PlanRows]!;
    this.requests = words[Word.PlanRequests]!;
    this.scheduled = rows;
    this.prefills = rows - words[Word.PlanDecodes]!;
    this.prefillTokens = words[Word.PlanPrefillTokens]!;
    this.preempted = words[Word.PlanPreempted]!;
    this.busyUs += durationUs;
  }

  /** `steps` of them, the last one at `nowUs`. */
  tookIn(nowUs: number, steps = 1): void {
    this.taken += steps;
    this.takenUs = nowUs;
  }

  /** No step is open and none was planned: nothing runs. */
  rested(): void {
    const words = this.#words;
    this.requests = words[Word.Running]! + words[Word.Waiting]!;
    this.scheduled = 0;
    this.prefills = 0;
    this.prefillTokens = 0;
    this.preempted = 0;
  }
}
