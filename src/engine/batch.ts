/**
 * The only caller of the core's `schedule` and `update`. The live loop, replays and the golden runner all use this
 * class, so there is no second scheduler.
 */
import { Coast, Field, NONE, type Pause, type Reason, SLOTS, SUBMIT_FED, Submit, Word } from "../../assembly/layout.ts";
import type { StepPacing } from "./config/engine-config.ts";
import { type CoreRequest, REQUEST_NUMBERS } from "./core-request.ts";
import type { Journal } from "./journal.ts";
import { LastPlan } from "./last-plan.ts";
import { paceSetup } from "./setup.ts";
import type { Core } from "./wasm/core.ts";

/** Largest number of steps in one `coast`. They take some milliseconds, after which other work gets its turn. */
const COAST_MOST = 4096;

export class Batch {
  readonly #blocksUsable: number;
  readonly lastPlan: LastPlan;

  /** `core` must be new: all its blocks are free. `journal` records the calls. */
  constructor(
    readonly core: Core,
    private readonly journal: Journal | null = null,
  ) {
    journal?.of(core);
    this.#blocksUsable = core.views.word(Word.BlocksFree);
    this.lastPlan = new LastPlan(core);
  }

  /** Largest number of blocks in use, right after a plan. */
  get blocksPeak(): number {
    return this.#blocksUsable - this.core.views.word(Word.BlocksFreeLeast);
  }

  /** Submits a request. Returns its handle, or NONE if slots or arena are full. `queuedUs`: replaces the request's time. */
  add(request: CoreRequest, queuedUs = request.queuedUs): number {
    const { exports, views } = this.core;
    const { prompt, stopTokenIds, fed } = request;
    const row = views.submit;
    for (const { name, at } of REQUEST_NUMBERS) row[at] = request[name];
    row[Submit.PromptWords] = prompt.length;
    row[Submit.Stops] = stopTokenIds.length;
    row[Submit.QueuedUs] = queuedUs;
    if (fed) row[Submit.Flags] = request.flags | SUBMIT_FED;
    this.journal?.add(row, prompt, stopTokenIds);
    views.input.set(prompt);
    if (stopTokenIds.length > 0) views.input.set(stopTokenIds, prompt.length);
    const handle = exports.submit();
    this.journal?.added(handle);
    if (handle !== NONE && fed) this.feed(handle, fed);
    return handle;
  }

  /** Feeds more scripted output ids. Does nothing if the request is gone. */
  feed(handle: number, ids: ArrayLike<number>): void {
    this.journal?.long("feed", [handle], ids);
    this.core.views.input.set(ids);
    this.core.exports.feed(handle, ids.length);
  }

  /** Lets a request with SUBMIT_BLOCKED be admitted from the next plan on. Returns false if the request is gone. */
  unblock(handle: number): boolean {
    this.journal?.short("unblock", handle);
    return this.core.exports.unblock(handle) !== 0;
  }

  /** Applies a pace to all steps planned from now on. Not in the journal, because no decision depends on it. */
  retime(pace: StepPacing): void {
    this.core.retime(paceSetup(pace));
  }

  /** Plans the next step at `nowUs` and returns its duration in microseconds. */
  plan(nowUs: number): number {
    this.journal?.short("plan", nowUs);
    const durationUs = this.core.exports.schedule(nowUs);
    this.lastPlan.planned(durationUs);
    return durationUs;
  }

  /** Processes the oldest open step, which ended at `nowUs`. Returns the number of outbox rows. */
  take(nowUs: number): number {
    this.journal?.short("take", nowUs);
    this.lastPlan.tookIn(nowUs);
    return this.core.exports.update(nowUs);
  }

  /**
   * Plans and updates steps in one call while they end before `untilUs` and end no request. Returns the number of
   * updates. `course[Coast.TokenSteps]` is the number of steps with tokens. `course` holds the boundary, the end of the
   * open step (Infinity: none) and the end of the last planned step, before and after the call. The journal does not
   * record it, and plain rows are missing in the outbox.
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

  /** Ends a request from outside. It is freed at the next `take` or `flush`. Returns false if it is gone. */
  close(handle: number, reason: Reason, tokens: number, nowUs: number): boolean {
    this.journal?.long("close", [handle, reason, tokens, nowUs]);
    return this.core.exports.close(handle, reason, tokens, nowUs) !== 0;
  }

  /** Records that all choices of a prompt have ended. For requests with SUBMIT_CHOICE. */
  observeChoices(choices: number, longest: number): void {
    this.core.exports.observeChoices(choices, longest);
  }

  /** Frees closed requests at once. For a batch without an open step. */
  flush(): void {
    this.journal?.long("flush", []);
    this.core.exports.flush();
    this.lastPlan.rested();
  }

  pause(state: Pause): void {
    this.journal?.short("pause", state);
    this.core.exports.pause(state);
  }

  resetPrefixCache(force: boolean): boolean {
    this.journal?.short("resetPrefixCache", Number(force));
    return this.core.exports.resetPrefixCache(force ? 1 : 0) !== 0;
  }

  /** Returns the output tokens of a generation that is in the core or has just left it. Returns 0 before it is submitted. */
  outputsOf(handle: number): number {
    return handle === NONE ? 0 : this.core.views.field(Field.Outputs, handle % SLOTS);
  }

  /** Number of steps that are planned and not updated yet. */
  get open(): number {
    return this.core.exports.open();
  }

  /** True if a request is left to schedule, or an end to report to the workers. */
  get hasWork(): boolean {
    return this.core.exports.hasWork() !== 0;
  }
}
