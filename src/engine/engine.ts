/**
 * What can the layers above ask of an engine? Submit, cancel, finish, pause, look. It owns the receivers by slot and the
 * requests that are held back before the queue; the loop owns time, the core every decision.
 */
import {
  Field,
  NONE,
  OUT_FEED,
  OUT_FIRST,
  OUT_REASON,
  OUT_STOP_ID,
  OUT_WORDS,
  Pause,
  Reason,
  SLOTS,
  SUBMIT_BLOCKED,
  Word,
} from "../../assembly/layout.ts";
import type { EngineConfig } from "../config/types.ts";
import { startCore } from "../core/core.ts";
import type { Clock } from "../host/clock.ts";
import { Adapters } from "./adapters.ts";
import { Batch } from "./batch.ts";
import { Boundary } from "./boundary.ts";
import { coreRequest } from "./core-request.ts";
import { FactsRecorder } from "./facts-recorder.ts";
import { Lateness } from "./lateness.ts";
import { type LiveOwner, LiveRequest } from "./live.ts";
import { Loop } from "./loop.ts";
import { type EngineOptions, isAlone, type PauseMode } from "./options.ts";
import { PreQueue } from "./pre-queue.ts";
import type { RequestMeters } from "./request-meter.ts";
import { coreSetup, holdSeed, type StepPacing } from "./setup.ts";
import { type Fresh, Snapshots } from "./snapshot.ts";
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
} from "./types.ts";

const FINISHES = [Finish.Stop, Finish.Length, Finish.Abort, Finish.Error, Finish.Repetition] as const;

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
  /** By slot; undefined where nobody listens. */
  readonly #live: (LiveRequest | undefined)[] = [];
  #liveCount = 0;
  /** By row of the outbox: whom it is for. A receiver may submit while rows are handed out, and get the slot of a row to come. */
  readonly #rows: (LiveRequest | undefined)[] = [];
  /** Receivers that want every token. */
  #listening = 0;
  #submitted = 0;
  #refuses = false;
  #paused = false;
  /** Ended by the front, and still in the core until the next update. */
  #closing = 0;

  constructor(options: EngineOptions) {
    const { config, clock, module, loopObservers = [] } = options;
    this.config = config;
    this.#clock = clock;
    const core = startCore(module, coreSetup(config, options));
    this.#batch = new Batch(core, options.journal);
    this.#meters = options.meters ?? null;
    this.#adapters = new Adapters(core, options.adapters ?? 0);
    this.#snapshots = new Snapshots(core, options, this.#adapters.held, this.#batch.lastPlan);
    const timelineAt = (slot: number) => this.#live[slot]?.timeline ?? undefined;
    const { observer, writes } = options;
    this.#recorder = observer ? new FactsRecorder(core, clock, observer, timelineAt, writes) : null;
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
      writes: options.writes,
      asyncScheduling: config.asyncScheduling,
      free: timing.kind === "none" && (options.free ?? true),
      leastUs: timing.kind === "none" ? 1 : 0,
      deliver: () => {
        this.#deliver();
        this.#adapters.hold();
      },
      release: (boundaryUs) => {
        this.#boundary.reached();
        this.#preQueue.release(boundaryUs);
      },
      // Who finds the cause of a late step comes before who writes it down.
      observers: [
        this.#lateness,
        ...loopObservers,
        ...(this.#recorder ? [this.#recorder] : []),
        this.#boundary,
        this.#preQueue,
      ],
      ...(isAlone(options) ? { coasts: () => this.#listening === 0 && this.#boundary.clear } : {}),
    });
  }

  /** Takes a generation, or says why not; `receiver` hears of each step that gave tokens. */
  submit(generation: Generation, receiver: Receiver): Submission | Refusal {
    const startedUs = this.#meters === null ? 0 : this.#clock.now();
    const taken = this.#take(generation, receiver);
    if (this.#meters === null) return taken;
    if ("refused" in taken) this.#meters.refused(generation, startedUs);
    else taken.meter = this.#meters.begun(generation, receiver.streams === true, startedUs, this.#clock.now());
    return taken;
  }

  #take(generation: Generation, receiver: Receiver): LiveRequest | Refusal {
    if (this.#refuses) return { refused: "paused" };
    if (this.#preQueue.size + this.#liveCount >= SLOTS) return { refused: "busy" };
    const unread = receiver.endsOnly === true && generation.stopTokenIds.length === 0 && !generation.script;
    const request = coreRequest(generation, unread, this.#submitted++);
    const live = new LiveRequest(this, request, receiver, generation.script, generation.choices);
    this.#adapters.know(live.adapter);
    if (this.#recorder) live.timeline = this.#recorder.submitted(generation.id, request, receiver);
    if (this.#preQueue.hold(live, generation.arrivalUs, generation.transferUs)) return live;
    return this.#enqueue(live, this.#clock.now()) ? live : { refused: "busy" };
  }

  /** A copy. */
  snapshot(fresh: Fresh = "step"): EngineSnapshot {
    return this.#snapshots.take(fresh);
  }

  /** Live numbers, not copied, as they stand or as the last update left them. */
  view(fresh: Fresh): EngineView {
    return this.#snapshots.view(fresh);
  }

  /** One histogram finely, copied. */
  fine(name: HistogramName): FineHistogram {
    return this.#snapshots.fine(name);
  }

  /** Most blocks that were in use at once, right after a step was planned. */
  get blocksPeak(): number {
    return this.#batch.blocksPeak;
  }

  lateness(): LoopSnapshot {
    return this.#lateness.snapshot();
  }

  /** Generations that the engine has and that have not ended. */
  get live(): number {
    return this.#liveCount + this.#preQueue.size;
  }

  /** Live generations, and those that the front ended and that the next update frees: what vLLM's front has in flight. */
  get inFlight(): number {
    return this.live + this.#closing;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /**
   * `abort`: all end with reason abort; `wait`: those that run drain; `keep`, `still`: everything freezes. Until `resume`.
   * Takes effect `between` steps; new generations are refused (or, with `keep`, queued) from now on.
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

  /** How long steps last from the next plan on, and requests wait before the queue; to be called `between` steps. */
  retime(pace: StepPacing): void {
    this.#batch.retime(pace);
    this.#preQueue.retime(pace);
  }

  /** Runs `command` where vLLM's engine takes commands in: after an update and before the next plan; now, if no step is open. */
  between(command: () => void): void {
    this.#boundary.between(command);
  }

  /** Runs `act` once no step is open and there is nothing to plan; now, if it is so. */
  atRest(act: () => void): void {
    this.#boundary.atRest(act);
  }

  /** Empties the prefix cache; with `running` those that run are preempted first. False while blocks are in use. */
  resetPrefixCache(running: boolean): boolean {
    const done = this.#batch.resetPrefixCache(running);
    this.#recorder?.reset();
    return done;
  }

  /** Ends everything for this reason, abort or error, and tells the receivers. */
  abortAll(why = Finish.Abort): void {
    const ids = this.#batch.core.views.tokens;
    for (const live of [...this.#preQueue.clear(), ...this.#live]) {
      if (!live || live.ended) continue;
      this.end(live, why, live.tokens, why === Finish.Abort ? Reason.EngineAbort : Reason.Error);
      live.receiver.onTokens(ids, 0, 0, why, NONE);
    }
  }

  /** No step is planned any more. */
  stop(): void {
    this.#refuses = true;
    this.#loop.stop();
    const held = this.#preQueue.clear();
    this.#recorder?.stop([...held, ...this.#live]);
  }

  /** The front ends a generation: silent at once, freed at the next abort point. For `Submission` only. */
  end(live: LiveRequest, reason: Finish, tokens: number, how: Reason = reason as number): void {
    if (live.ended) return;
    live.ended = true;
    if (live.timeline) this.#recorder!.closed(live.timeline, reason, tokens, this.#loop.boundaryUs);
    if (live.meter !== null) {
      const nowUs = this.#clock.now();
      live.passed(reason, reason === Finish.Abort ? this.#outputsOf(live) : tokens, nowUs, nowUs, nowUs);
    }
    if (live.handle === NONE) {
      this.#preQueue.drop(live);
      return;
    }
    this.#forget(live);
    this.#batch.close(live.handle, how, tokens, this.#loop.boundaryUs);
    if (how !== Reason.Abort || this.config.fixes?.includes("abort-counted")) live.counted(this.#batch, tokens);
    this.#closing++;
    if (this.#loop.idle) {
      this.#closing = 0;
      this.#batch.flush();
      this.#snapshots.hold();
      this.#adapters.hold();
      this.#loop.kick(this.#clock.now());
    }
  }

  /** Lets a generation that was submitted blocked be admitted. For `Submission` only. */
  unblock(live: LiveRequest): void {
    if (live.request) live.request = { ...live.request, flags: live.request.flags & ~SUBMIT_BLOCKED };
    else this.#batch.unblock(live.handle);
  }

  /** Into the queue; false when the core is full. */
  #enqueue(live: LiveRequest, queuedUs: number): boolean {
    const handle = this.#batch.add(live.request!, queuedUs);
    live.request = null;
    if (handle === NONE) return false;
    live.handle = handle;
    live.timeline?.queued(handle, queuedUs);
    this.#live[handle % SLOTS] = live;
    this.#liveCount++;
    if (!live.endsOnly) this.#listening++;
    this.#loop.kick(queuedUs);
    return true;
  }

  /** Hands the outbox out: the one loop that every token passes. */
  #deliver(): void {
    this.#closing = 0;
    this.#snapshots.hold();
    const recorder = this.#recorder;
    if (this.#listening === 0 && recorder === null && this.#meters === null) {
      this.#deliverEnds();
      return;
    }
    const { views } = this.#batch.core;
    const { out, tokens } = views;
    const end = views.word(Word.OutRows) * OUT_WORDS;
    const step = recorder === null ? 0 : recorder.begin(this.#loop.boundaryUs);
    for (let row = 0, i = 0; row < end; row += OUT_WORDS, i++) {
      const flags = out[row + 3]!;
      const live = this.#live[out[row]!];
      this.#rows[i] = live;
      if (live !== undefined && (flags & OUT_FIRST) !== 0) {
        live.cachedTokens = views.cachedPrompt[out[row]!]! - 1;
        live.scheduledUs = views.scheduledUs[out[row]!]!;
        this.#adapters.first(live);
        live.meter?.first(this.#loop.boundaryUs);
      }
    }
    let given = 0;
    let nextPart = recorder === null ? Number.POSITIVE_INFINITY : recorder.nextPart;
    for (let row = 0, i = 0; row < end; row += OUT_WORDS, i++) {
      if (given >= nextPart) nextPart = recorder!.part();
      given += out[row + 2]!;
      const live = this.#rows[i];
      // A receiver earlier in this loop may have ended this one.
      if (live === undefined || live.ended) {
        recorder?.unheard(out[row]!, out[row + 2]!, FINISHES[(out[row + 3]! & OUT_REASON) - 1] ?? null);
        continue;
      }
      const at = out[row + 1]!;
      const count = out[row + 2]!;
      const flags = out[row + 3]!;
      const reason = (flags & OUT_REASON) - 1;
      live.tokens += count;
      if (recorder !== null) live.timeline!.took(step, count);
      if (reason < 0) {
        if (live.endsOnly) continue;
        live.receiver.onTokens(tokens, at, count, null, NONE);
        if (recorder !== null && ((flags & OUT_FIRST) !== 0 || live.ended)) recorder.handed(live.timeline!);
        if ((flags & OUT_FEED) === 0) continue;
        const more = live.moreOfScript();
        if (more.length > 0 && !live.ended) this.#batch.feed(live.handle, more);
      } else {
        live.ended = true;
        this.#forget(live);
        live.counted(this.#batch, live.tokens);
        recorder?.ended(live.timeline!, FINISHES[reason]!, live.tokens, recorder.dueUs);
        this.#tell(live, row);
        recorder?.handed(live.timeline!);
      }
    }
  }

  /** Hands out ends alone, where nobody wants more: no other row of the outbox is looked at. */
  #deliverEnds(): void {
    const { views } = this.#batch.core;
    const { out, outEnds } = views;
    const count = views.words[Word.OutEnds]!;
    for (let i = 0; i < count; i++) {
      const slot = out[outEnds[i]! * OUT_WORDS]!;
      const live = this.#live[slot];
      this.#rows[i] = live;
      if (live !== undefined) live.cachedTokens = views.cachedPrompt[slot]! - 1;
    }
    for (let i = 0; i < count; i++) {
      const live = this.#rows[i];
      if (live === undefined || live.ended) continue;
      live.ended = true;
      this.#forget(live);
      this.#tell(live, outEnds[i]! * OUT_WORDS);
    }
  }

  /** Tokens of a generation that is in the core, or has just left it; 0 before. */
  #outputsOf({ handle }: LiveRequest): number {
    return handle === NONE ? 0 : this.#batch.core.views.field(Field.Outputs, handle % SLOTS);
  }

  /** The last call of a receiver: its generation ended with that row of the outbox. */
  #tell(live: LiveRequest, row: number): void {
    const { out, tokens } = this.#batch.core.views;
    const [at, count, flags] = [out[row + 1]!, out[row + 2]!, out[row + 3]!];
    const finish = FINISHES[(flags & OUT_REASON) - 1]!;
    const stopId = flags & OUT_STOP_ID ? tokens[at + count - 1]! : NONE;
    const { meter } = live;
    if (meter === null) {
      live.receiver.onTokens(tokens, at, count, finish, stopId);
      return;
    }
    // Before the receiver: it may submit, and so give the slot to another.
    const outputs = this.#outputsOf(live);
    const dueUs = this.#loop.boundaryUs;
    const handedUs = this.#clock.now();
    live.receiver.onTokens(tokens, at, count, finish, stopId);
    live.passed(finish, outputs, dueUs, handedUs, this.#clock.now());
  }

  #forget(live: LiveRequest): void {
    const slot = live.handle % SLOTS;
    // The slot may have its next owner already.
    if (this.#live[slot] === live) this.#live[slot] = undefined;
    if (!live.endsOnly) this.#listening--;
    this.#liveCount--;
    this.#adapters.ended(live);
  }
}
