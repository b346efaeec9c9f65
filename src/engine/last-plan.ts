/** Numbers of the last planned step, read at the plan, so that they agree with each other even if requests end later. */
import { Word } from "../../assembly/layout.ts";
import type { Core } from "./wasm/core.ts";

export class LastPlan {
  readonly #words: Int32Array;
  /** Requests that ran or waited, including preempted ones. */
  requests = 0;
  /** Requests with tokens in the step, and how many of them compute their prompt. */
  scheduled = 0;
  prefills = 0;
  prefillTokens = 0;
  /** Requests preempted by this plan. */
  preempted = 0;
  /** Sum of the durations of all planned steps. */
  busyUs = 0;
  /** Updated steps, and engine time of the last update (0 before the first). */
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

  /** Records `steps` updates, the last one at `nowUs`. */
  tookIn(nowUs: number, steps = 1): void {
    this.taken += steps;
    this.takenUs = nowUs;
  }

  /** Records that no step is open or planned, so nothing runs. */
  rested(): void {
    const words = this.#words;
    this.requests = words[Word.Running]! + words[Word.Waiting]!;
    this.scheduled = 0;
    this.prefills = 0;
    this.prefillTokens = 0;
    this.preempted = 0;
  }
}
