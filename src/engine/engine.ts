/**
 * One engine: submits, cancels, finishes and pauses generations and shows its state. Owns the receivers by slot and the
 * requests held before the queue. The loop owns time, and the core every decision.
 */
import { NONE, Pause, Reason, SLOTS, SUBMIT_BLOCKED } from "../../assembly/layout.ts";
import type { Clock } from "../base/clock.ts";
import { Adapters } from "./adapters.ts";
import { Batch } from "./batch.ts";
import { Boundary } from "./boundary.ts";
import type { CacheFeed } from "./cache-feed.ts";
import type { EngineConfig, StepPacing } from "./config/engine-config.ts";
import { coreRequest } from "./core-request.ts";
import { FactsRecorder } from "./facts-recorder.ts";
import type { Lanes } from "./interface/lanes.ts";
import type { RequestMeters } from "./interface/request-meter.ts";
import {
  type EngineSnapshot,
  type EngineView,
  type FineHistogram,
  Finish,
  type Generation,
  type HistogramName,
  type LoopSnapshot,
  type Receiver,
  type Refusal,
  type Submission,
} from "./interface/types.ts";
import { Lateness } from "./lateness/lateness.ts";
import { type LiveOwner, LiveRequest } from "./live.ts";
import { Loop } from "./loop.ts";
import { type EngineFaults, type EngineOptions, isAlone, type PauseMode } from "./options.ts";
import { PreQueue } from "./pre-queue.ts";
import { Receivers } from "./receivers.ts";
import { coreSetup, holdSeed } from "./setup.ts";
import { type Fresh, Snapshots } from "./snapshot.ts";
import { startCore } from "./wasm/core.ts";

export class Engine implements LiveOwner {
  readonly config: EngineConfig;
  readonly #batch: Batch;
  readonly #loop: Loop;
  readonly #clock: Clock;
  readonly #snapshots: Snapshots;
  readonly #preQueue: PreQueue<LiveRequest>;
  readonly #recorder: FactsRecorder | null;
  readonly #meters: RequestMeters | null;
  readonly #lateness: Lateness;
  readonly #adapters: Adapters;
  readonly #boundary: Boundary;
  readonly #receivers: Receivers;
  readonly #faults: EngineFaults | null;
  readonly #cacheFeed: CacheFeed | null;
  readonly lanes: Lanes | null;
  #submitted = 0;
  #refuses = false;
  #paused = false;
  /** Requests that the front end has ended and that are in the core until the next update. */
  #closing = 0;

  constructor(options: EngineOptions) {
    const { config, clock, module, loopObservers = [] } = options;
    this.config = config;
    this.#clock = clock;
    this.#faults = options.faults ?? null;
    this.#cacheFeed = options.cacheFeed ?? null;
    const core = startCore(module, coreSetup(config, options));
    this.#batch = new Batch(core, options.journal);
    this.#meters = options.meters ?? null;
    this.#adapters = new Adapters(core, options.adapters ?? 0);
    this.#snapshots = new Snapshots(core, options, this.#adapters.snapshots, this.#batch.lastPlan);
    const timelineAt = (slot: number) => this.#receivers.bySlot[slot]?.timeline ?? undefined;
    const { observer } = options;
    this.#recorder = observer ? new FactsRecorder(core, clock, observer, timelineAt) : null;
    this.lanes = options.lanes?.() ?? null;
    this.#receivers = new Receivers({
      ...{ batch: this.#batch, clock, adapters: this.#adapters, recorder: this.#recorder, lanes: this.lanes },
      metered: this.#meters !== null,
      failed: this.#faults && ((live, error) => this.#receiverFailed(live, error)),
    });
    const { timing } = config;
    const nextUs = () => this.#loop.nextUs;
    this.#preQueue = new PreQueue(clock, config, holdSeed(config, options), nextUs, (live, dueUs) => {
      if (!this.#enqueue(live, dueUs)) live.unplaced(core.views.tokens, dueUs, clock.now());
    });
    this.#boundary = new Boundary({ idle: () => this.#loop.idle, hasWork: () => this.#batch.hasWork });
    this.#lateness = options.lateness ?? new Lateness();
    this.#loop = new Loop({
      batch: this.#batch,
      clock,
      asyncScheduling: config.asyncScheduling,
      free: timing.kind === "none" && (options.free ?? true),
      leastUs: timing.kind === "none" ? 1 : 0,
      deliver: () => {
        this.#closing = 0;
        this.#snapshots.hold();
        this.#receivers.deliver(this.#loop.boundaryUs);
        this.#adapters.hold();
      },
      release: (boundaryUs) => {
        this.#boundary.reached();
        this.#preQueue.release(boundaryUs);
      },
      gathers: () => this.#receivers.seen === 0 && this.#boundary.clear,
      // The observer that finds the cause of a late step comes before the observer that records it.
      observers: [
        this.#lateness,
        ...loopObservers,
        ...(this.#cacheFeed ? [this.#cacheFeed.on(core)] : []),
        ...(options.watcher ? [options.watcher(core)] : []),
        ...(this.#recorder ? [this.#recorder] : []),
        this.#boundary,
        this.#preQueue,
      ],
      ...(isAlone(options) ? { coasts: () => this.#receivers.listening === 0 && this.#boundary.clear } : {}),
    });
  }

  /** Submits a generation, or returns the reason of a refusal. `receiver` is called for each step that gave it tokens. */
  submit(generation: Generation, receiver: Receiver): Submission | Refusal {
    const startedUs = this.#meters === null ? 0 : this.#clock.now();
    const submission = this.#accept(generation, receiver);
    if (this.#meters === null) return submission;
    if ("refused" in submission) this.#meters.refused(generation, startedUs);
    else submission.meter = this.#meters.begun(generation, receiver.streams === true, startedUs, this.#clock.now());
    return submission;
  }

  #accept(generation: Generation, receiver: Receiver): LiveRequest | Refusal {
    if (this.#refuses) return { refused: "paused" };
    if (this.#preQueue.size + this.#receivers.count >= SLOTS) return { refused: "busy" };
    const unread = receiver.endsOnly === true && generation.stopTokenIds.length === 0 && !generation.script;
    const request = coreRequest(generation, unread, this.#submitted++);
    const live = new LiveRequest(this, request, receiver, generation.script, generation.choices);
    this.#adapters.know(live.adapter);
    if (this.#recorder) live.timeline = this.#recorder.submitted(generation, request, receiver);
    // The clock is read once, because a boundary between two readings would plan the request before it was queued.
    const nowUs = this.#clock.now();
    if (this.#preQueue.hold(live, nowUs, generation.arrivalUs, generation.transferUs)) return live;
    return this.#enqueue(live, nowUs) ? live : { refused: "busy" };
  }

  /** Returns a copy of the numbers. */
  snapshot(fresh: Fresh = "step"): EngineSnapshot {
    return this.#snapshots.take(fresh);
  }

  /** Returns live numbers without copying: current ones, or those of the last update. */
  view(fresh: Fresh): EngineView {
    return this.#snapshots.view(fresh);
  }

  /** Returns a copy of one histogram with its fine buckets. */
  fine(name: HistogramName): FineHistogram {
    return this.#snapshots.fine(name);
  }

  /** Largest number of blocks that were in use at once, right after a plan. */
  get blocksPeak(): number {
    return this.#batch.blocksPeak;
  }

  lateness(): LoopSnapshot {
    return this.#lateness.snapshot();
  }

  /** Number of generations that have not ended. */
  get live(): number {
    return this.#receivers.count + this.#preQueue.size;
  }

  /** Live generations and those that the front end has ended but the next update frees: vLLM's front end counts both as in flight. */
  get inFlight(): number {
    return this.live + this.#closing;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /**
   * Pauses until `resume`. `abort`: all generations end with reason abort. `wait`: running ones finish. `keep`,
   * `still`: everything freezes. Takes effect `between` steps. New generations are refused from now on, or queued with
   * `keep`.
   */
  pause(mode: PauseMode): void {
    if (mode !== "still") [this.#paused, this.#refuses] = [true, mode !== "keep"];
    this.between(() => {
      if (mode === "abort") this.abortAll();
      this.#batch.pause(mode === "keep" || mode === "still" ? Pause.PausedAll : Pause.PausedNew);
    });
  }

  resume(): void {
    this.#paused = false;
    this.#refuses = false;
    this.between(() => {
      this.#batch.pause(Pause.Unpaused);
      this.#loop.kick(this.#clock.now());
    });
  }

  /** Applies a pace from the next plan on, also to the time before the queue. Must be called `between` steps. */
  retime(pace: StepPacing): void {
    this.#batch.retime(pace);
    this.#preQueue.retime(pace);
  }

  /** Runs `command` when vLLM's engine accepts commands: after an update and before the next plan, or now if no step is open. */
  between(command: () => void): void {
    this.#boundary.between(command);
  }

  /** Runs `act` once no step is open and nothing is left to plan. Runs it now if that is the case. */
  atRest(act: () => void): void {
    this.#boundary.atRest(act);
  }

  /** Empties the prefix cache. With `running`, first preempts running requests. Returns false if blocks are still in use. */
  resetPrefixCache(running: boolean): boolean {
    const done = this.#batch.resetPrefixCache(running);
    this.#recorder?.reset();
    return done;
  }

  /** Ends every generation with reason abort or error, and calls the receivers. */
  abortAll(why = Finish.Abort): void {
    const ids = this.#batch.core.views.tokens;
    for (const live of [...this.#preQueue.clear(), ...this.#receivers.bySlot]) {
      if (!live || live.ended) continue;
      live.settle();
      this.end(live, why, live.tokens, why === Finish.Abort ? Reason.EngineAbort : Reason.Error);
      this.#receivers.guarded(live, () => live.receiver.onTokens(ids, 0, 0, why, NONE));
    }
  }

  /** Stops planning steps. */
  stop(): void {
    this.#refuses = true;
    this.#loop.stop();
    const delayed = this.#preQueue.clear();
    for (const live of this.#receivers.bySlot) live?.settle();
    this.#recorder?.stop([...delayed, ...this.#receivers.bySlot]);
  }

  /** Ends a generation for the front end: no output from now on, freed at the next update. Only called by `Submission`. */
  end(live: LiveRequest, reason: Finish, tokens: number, how: Reason = reason as number): void {
    if (live.ended) return;
    live.ended = true;
    if (live.timeline) this.#recorder!.closed(live.timeline, reason, tokens, this.#loop.boundaryUs);
    if (live.meter !== null) {
      const nowUs = this.#clock.now();
      live.passed(reason, reason === Finish.Abort ? this.#batch.outputsOf(live.handle) : tokens, nowUs, nowUs, nowUs);
    }
    if (live.handle === NONE) {
      this.#preQueue.drop(live);
      return;
    }
    this.#fatal(() => this.#close(live, tokens, how));
  }

  #close(live: LiveRequest, tokens: number, how: Reason): void {
    this.#receivers.forget(live);
    const isOpen = this.#batch.close(live.handle, how, tokens, this.#loop.boundaryUs);
    if (how !== Reason.Abort || this.config.fixes?.includes("abort-counted")) live.counted(this.#batch, tokens);
    this.#closing++;
    if (this.#loop.idle) {
      this.#closing = 0;
      this.#batch.flush();
      this.#snapshots.hold();
      this.#adapters.hold();
      this.#loop.kick(this.#clock.now());
    }
    // A request that the core has ended by itself may have left its slot to another.
    if (isOpen) this.#cacheFeed?.ended(live.handle);
  }

  /** Lets a blocked generation be admitted. Only called by `Submission`. */
  unblock(live: LiveRequest): void {
    if (live.request) live.request = { ...live.request, flags: live.request.flags & ~SUBMIT_BLOCKED };
    else this.#batch.unblock(live.handle);
  }

  /** Runs `act`, which calls the core. After an error the core's state is unknown. */
  #fatal<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      this.#faults?.broke(error);
      throw error;
    }
  }

  #receiverFailed(live: LiveRequest, error: unknown): void {
    this.#faults!.receiverFailed(error);
    this.end(live, Finish.Error, live.tokens, Reason.Error);
    try {
      if (live.receiver.broken) live.receiver.broken();
      else live.receiver.onTokens(this.#batch.core.views.tokens, 0, 0, Finish.Error, NONE);
    } catch (again) {
      this.#faults!.receiverFailed(again);
    }
  }

  /** Adds a request to the core's queue. Returns false if the core is full. */
  #enqueue(live: LiveRequest, queuedUs: number): boolean {
    const request = live.request!;
    const handle = this.#fatal(() => this.#batch.add(request, queuedUs));
    this.#cacheFeed?.submitted(handle, request);
    live.request = null;
    if (handle === NONE) return false;
    live.handle = handle;
    live.timeline?.queued(handle, queuedUs);
    this.#receivers.add(live);
    this.#loop.kick(queuedUs);
    return true;
  }
}
