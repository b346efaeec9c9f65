/**
 * Which calls make up the life of a batch? The only place that calls the core's `schedule` and `update`:
 * the live loop, replay and the golden runner all go through here, so there is no second scheduler.
 */
import { Coast, Field, NONE, type Pause, type Reason, SLOTS, SUBMIT_FED, Submit, Word } from "../../assembly/layout.ts";
import { type CoreRequest, REQUEST_NUMBERS } from "./core-request.ts";
import type { Journal } from "./journal.ts";
import { LastPlan } from "./last-plan.ts";
import { paceSetup, type StepPacing } from "./setup.ts";
import type { Core } from "./wasm/core.ts";

/** Steps of one coast: some milliseconds, after which others have their turn. */
const COAST_MOST = 4096;

export class Batch {
  readonly #blocksUsable: number;
  readonly #journal: Journal | null;
  readonly lastPlan: LastPlan;

  /** A new core: all its blocks are free. `journal` keeps the calls. */
  constructor(
    readonly core: Core,
    journal: Journal | null = null,
  ) {
    this.#journal = journal;
    journal?.of(core);
    this.#blocksUsable = core.views.word(Word.BlocksFree);
    this.lastPlan = new LastPlan(core);
  }

  /** Most blocks in use at once, right after a plan. */
  get blocksPeak(): number {
    return this.#blocksUsable - this.core.views.word(Word.BlocksFreeLeast);
  }

  /** The request's handle, or NONE when slots or arena are full. `queuedUs` where it is known only now. */
  add(request: CoreRequest, queuedUs = request.queuedUs): number {
    const { exports, views } = this.core;
    const { prompt, stopTokenIds, fed } = request;
    const row = views.submit;
    for (const { name, at } of REQUEST_NUMBERS) row[at] = request[name];
    row[Submit.PromptWords] = prompt.length;
    row[Submit.Stops] = stopTokenIds.length;
    row[Submit.QueuedUs] = queuedUs;
    if (fed) row[Submit.Flags] = request.flags | SUBMIT_FED;
    this.#journal?.add(row, prompt, stopTokenIds);
    views.input.set(prompt);
    if (stopTokenIds.length > 0) views.input.set(stopTokenIds, prompt.length);
    const handle = exports.submit();
    this.#journal?.added(handle);
    if (handle !== NONE && fed) this.feed(handle, fed);
    return handle;
  }

  /** More scripted output ids; nothing happens when the request is gone. */
  feed(handle: number, ids: ArrayLike<number>): void {
    this.#journal?.long("feed", [handle], ids);
    this.core.views.input.set(ids);
    this.core.exports.feed(handle, ids.length);
  }

  /** What a request with SUBMIT_BLOCKED waited for is there: it may be admitted from the next plan on. False when it is gone. */
  unblock(handle: number): boolean {
    this.#journal?.short("unblock", handle);
    return this.core.exports.unblock(handle) !== 0;
  }

  /** Steps that are planned from now on last as the pace says. The journal does not keep it: no decision looks at it. */
  retime(pace: StepPacing): void {
    this.core.retime(paceSetup(pace));
  }

  /** Plans the next step at `nowUs`; its duration in microseconds. */
  plan(nowUs: number): number {
    this.#journal?.short("plan", nowUs);
    const durationUs = this.core.exports.schedule(nowUs);
    this.lastPlan.planned(durationUs);
    return durationUs;
  }

  /** Takes in the oldest open step, which ended at `nowUs`; the number of outbox rows. */
  take(nowUs: number): number {
    this.#journal?.short("take", nowUs);
    this.lastPlan.tookIn(nowUs);
    return this.core.exports.update(nowUs);
  }

  /**
   * Plans and takes in, in this order, while steps end before `untilUs` and end no request; how many were taken in, and in
   * how many tokens came is `course[Coast.TokenSteps]`. `course` holds the boundary, the end of the open step (Infinity: none)
   * and that of the last one planned, before and after. The journal keeps no such calls, and plain rows are not in the outbox.
   */
  coast(untilUs: number, leastUs: number): number {
    const { course } = this;
    const steps = this.core.exports.coast(untilUs, leastUs, COAST_MOST);
    if (course[Coast.Plans]! > 0) this.lastPlan.planned(course[Coast.BusyUs]!);
    if (steps > 0) this.lastPlan.tookIn(course[Coast.BoundaryUs]!, steps);
    return steps;
  }

  get course(): Float64Array {
    return this.core.views.coast;
  }

  /** Ends a request from outside; freed at the next `take` or `flush`. False when it is gone already. */
  close(handle: number, reason: Reason, tokens: number, nowUs: number): boolean {
    this.#journal?.long("close", [handle, reason, tokens, nowUs]);
    return this.core.exports.close(handle, reason, tokens, nowUs) !== 0;
  }

  /** All choices of a prompt have ended: those submitted with SUBMIT_CHOICE. */
  observeChoices(choices: number, longest: number): void {
    this.core.exports.observeChoices(choices, longest);
  }

  /** Frees what was closed at once; for a batch without an open step. */
  flush(): void {
    this.#journal?.long("flush", []);
    this.core.exports.flush();
    this.lastPlan.rested();
  }

  pause(state: Pause): void {
    this.#journal?.short("pause", state);
    this.core.exports.pause(state);
  }

  resetPrefixCache(force: boolean): boolean {
    this.#journal?.short("resetPrefixCache", Number(force));
    return this.core.exports.resetPrefixCache(force ? 1 : 0) !== 0;
  }

  /** Tokens of a generation that is in the core, or has just left it; 0 before. */
  outputsOf(handle: number): number {
    return handle === NONE ? 0 : this.core.views.field(Field.Outputs, handle % SLOTS);
  }

  /** Steps planned and not yet taken in. */
  get open(): number {
    return this.core.exports.open();
  }

  /** Something to schedule, or an end to report to the workers. */
  get hasWork(): boolean {
    return this.core.exports.hasWork() !== 0;
  }
}
