/**
 * Statistics that TensorRT-LLM's server gets from its engine: a record per iteration, a line per ended request, and KV
 * cache events. Each is in a queue of fixed size that a reader empties (`py_executor.py`, 1.3 line). Other roles do not
 * create this.
 */
import { Event, Field, Word } from "../../assembly/layout.ts";
import { EVENT_IDS, KvTotal, LINE_BYTES, LineField, TrtWord } from "../../assembly/trtllm/layout.ts";
import type { EngineConfig } from "./config/engine-config.ts";
import type { IterationsConfig } from "./config/trtllm.ts";
import type { Choices, Finish } from "./interface/types.ts";
import type { LoopObserver } from "./lateness/loop-observer.ts";
import type { Observer, RequestTimeline } from "./observer.ts";
import { type RequestState, RequestStates } from "./request-states.ts";
import type { Core } from "./wasm/core.ts";

/** Blocks of the KV cache, counted from the start. */
export interface KvCounts {
  readonly allocated: number;
  readonly allocatedNew: number;
  readonly reused: number;
  readonly reusedPartly: number;
  readonly copied: number;
  readonly missed: number;
  readonly generated: number;
}

/** One iteration: its plan, and the state after its update. Times are microseconds of the engine's clock. */
export interface Iteration {
  /** Counted from 1. */
  readonly iter: number;
  readonly plannedUs: number;
  readonly endUs: number;
  /** Requests that became active for this plan, and the sum of their waiting times. */
  readonly newActive: number;
  readonly newActiveWaitUs: number;
  /** Active requests at the plan, scheduled or not. */
  readonly active: number;
  /** Requests that arrived between the plan and the iteration's end. No statistic includes the waiting requests before them. */
  readonly queued: number;
  readonly queuedTokens: number;
  readonly completed: number;
  readonly contexts: number;
  readonly generations: number;
  readonly contextTokens: number;
  /** Context tokens before those: cached tokens and earlier chunks. */
  readonly contextKvTokens: number;
  /** Prompt and answer tokens so far of the generating requests. */
  readonly generationKvTokens: number;
  readonly paused: number;
  readonly pausedKvTokens: number;
  readonly blocksUsed: number;
  /** Counts since the start, and in this iteration. */
  readonly kv: KvCounts;
  readonly kvHere: KvCounts;
  /** null if they are not recorded. */
  readonly requests: readonly RequestState[] | null;
}

/** A request that ended. Times as above; NaN if the event did not happen. */
export interface EndedRequest {
  /** Counted from 1 in order of arrival. */
  readonly id: number;
  readonly finish: Finish | null;
  readonly arrivalUs: number;
  readonly scheduledUs: number;
  readonly firstTokenUs: number;
  readonly endUs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly firstIter: number;
  readonly lastIter: number;
  /** True if the request is one of several choices of a prompt. */
  readonly several: boolean;
}

/** Events are numbered from 0. */
export type KvEvent =
  | { readonly id: number; readonly kind: "created" }
  | {
      readonly id: number;
      readonly kind: "stored";
      /** null if the blocks have no parent. */
      readonly parent: bigint | null;
      readonly hashes: readonly bigint[];
      /** Token ids of all its blocks. Empty if the cache keeps none. */
      readonly tokens: readonly number[];
    }
  | { readonly id: number; readonly kind: "removed"; readonly hashes: readonly bigint[] };

/** A queue with a limit. The oldest entries are dropped. */
export class Backlog<T> {
  #entries: T[] = [];
  #arrived: (() => void)[] = [];

  constructor(readonly most: number) {}

  add(entry: T): void {
    // Dropped in halves, so that dropping a single entry costs nothing.
    if (this.#entries.length >= 2 * this.most) this.#entries = this.#entries.slice(-this.most);
    this.#entries.push(entry);
    for (const arrived of this.#arrived.splice(0)) arrived();
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Returns and removes all entries. */
  take(): readonly T[] {
    const entries = this.#entries.slice(-this.most);
    this.#entries = [];
    return entries;
  }

  /** Calls `act` once, with the next entry. */
  whenSome(act: () => void): void {
    this.#arrived.push(act);
  }
}

type PlannedIteration = Omit<
  Iteration,
  "endUs" | "queued" | "queuedTokens" | "completed" | "blocksUsed" | "kv" | "kvHere" | "requests"
>;

export class Iterations implements Observer {
  /** null if they are not recorded. */
  readonly records: Backlog<Iteration> | null;
  readonly requests: Backlog<EndedRequest> | null;
  readonly events: Backlog<KvEvent> | null;
  /** Requests of the last planned batch. 0 at rest. */
  batchSize = 0;
  /** Called for each ended request, one turn after its end, when its iteration is already recorded. */
  ended: ((request: EndedRequest) => void) | null = null;
  /** By prompt: how many of its choices have ended, and the first choice that ended. */
  readonly #choices = new WeakMap<Choices, { readonly first: EndedRequest; readonly count: number }>();
  readonly #blocksUsable: number;
  /** True if requests to `/v1/responses` count like others. */
  readonly #countsResponses: boolean;
  readonly #requestBlockSize: number;
  #iter = 0;
  #eventId = 0;

  constructor(engine: Pick<EngineConfig, "numGpuBlocks" | "fixes" | "blockSize">, options: IterationsConfig) {
    this.#blocksUsable = engine.numGpuBlocks - 1;
    this.#countsResponses = engine.fixes?.includes("responses-counted") === true;
    this.#requestBlockSize = options.enableIterPerfStats && options.enableIterReqStats ? engine.blockSize : 0;
    const keeps = options.returnPerfMetrics && options.perfMetricsMaxRequests > 0;
    this.records = options.enableIterPerfStats ? new Backlog(options.iterStatsMaxIterations) : null;
    this.requests = keeps ? new Backlog(options.perfMetricsMaxRequests) : null;
    this.events = options.eventBufferMaxSize > 0 ? new Backlog(options.eventBufferMaxSize) : null;
    this.events?.add({ id: this.#eventId++, kind: "created" });
  }

  /** Returns an observer of the engine's steps. */
  on(core: Core): LoopObserver {
    const { words } = core.views;
    const view = new PlanView(core, this.#blocksUsable);
    const open: PlannedIteration[] = [];
    const states = this.#requestBlockSize > 0 ? new RequestStates(core, this.#requestBlockSize) : null;
    const scheduled: ReadonlySet<number>[] = [];
    let backlog = 0;
    let queued = 0;
    let kvBefore = view.kv();
    return {
      planning: () => view.planning(),
      planned: (boundaryUs) => {
        this.batchSize = words[Word.PlanRows]!;
        this.#iter++;
        if (this.records !== null) open.push(view.planned(this.#iter, boundaryUs));
        if (states !== null) scheduled.push(states.planned());
        backlog = words[Word.Waiting]!;
        this.#readEvents(core);
      },
      updating: () => {
        queued = Math.max(0, words[Word.Waiting]! - backlog);
      },
      started: ({ dueUs }) => {
        this.#readEvents(core);
        const plan = open.shift();
        const requests = states?.taken(scheduled.shift() ?? new Set(), queued) ?? null;
        // An iteration with nothing to run has no record.
        if (plan === undefined || plan.contexts + plan.generations === 0) return;
        const kv = view.kv();
        this.records!.add({
          ...plan,
          endUs: dueUs,
          queued,
          queuedTokens: view.lastWaiting(queued),
          completed: words[Word.OutEnds]!,
          blocksUsed: view.blocksUsed(),
          kv,
          kvHere: minus(kv, kvBefore),
          requests,
        });
        kvBefore = kv;
      },
      rested: () => {
        this.batchSize = 0;
      },
    };
  }

  step(): void {}
  idle(): void {}

  /**
   * Skips `/v1/responses`, because TensorRT-LLM's `openai_responses` extracts no metrics of a request
   * (`openai_server.py`, TensorRT-LLM#13949).
   */
  request(timeline: RequestTimeline): void {
    const { choices, ofResponses } = timeline;
    if (ofResponses && !this.#countsResponses) return;
    const ended = endedOf(timeline);
    if (choices === undefined) this.#tell(ended, ended);
    else this.#choiceEnded(choices, ended);
  }

  #choiceEnded(choices: Choices, ended: EndedRequest): void {
    // The choices of a prompt are one request. It is reported after the last has ended, with the times of the first
    // choice.
    const before = this.#choices.get(choices);
    const first = before === undefined || ended.id < before.first.id ? ended : before.first;
    const count = (before?.count ?? 0) + 1;
    this.#choices.set(choices, { first, count });
    if (count === choices.count) this.#tell(first, ended);
  }

  #tell(first: EndedRequest, last: EndedRequest): void {
    this.requests?.add(first);
    this.ended?.(last);
  }

  /** Reads the cache's events since the last call. Consecutive removals become one event. */
  #readEvents({ views, exports }: Core): void {
    const { events } = this;
    if (events === null || views.word(Word.EventWords) === 0) return;
    const { u32 } = views;
    const hashAt = (at: number) => BigInt(u32[at]!) | (BigInt(u32[at + 1]!) << 32n);
    let at = (views.word(Word.EventsAt) >>> 0) >> 2;
    const end = at + views.word(Word.EventWords);
    let removed: bigint[] = [];
    const flush = () => {
      if (removed.length > 0) events.add({ id: this.#eventId++, kind: "removed", hashes: removed });
      removed = [];
    };
    while (at < end) {
      const kind: Event = u32[at]!;
      if (kind === Event.Removed) {
        removed.push(hashAt(at + 2));
        at += 4;
        continue;
      }
      flush();
      if (kind !== Event.Stored) {
        at++;
        continue;
      }
      const count = u32[at + 3]!;
      const parent = hashAt(at + 4);
      const hashes = Array.from({ length: count }, (_, i) => hashAt(at + 6 + 2 * i));
      at += 6 + 2 * count;
      const ids = at < end && u32[at] === EVENT_IDS ? u32[at + 1]! : 0;
      const tokens = Array.from(u32.subarray(at + 2, at + 2 + ids));
      if (ids > 0) at += 2 + ids;
      events.add({ id: this.#eventId++, kind: "stored", parent: parent === 0n ? null : parent, hashes, tokens });
    }
    flush();
    exports.drainEvents();
  }
}

function endedOf(timeline: RequestTimeline): EndedRequest {
  const { runs } = timeline;
  return {
    id: timeline.order + 1,
    finish: timeline.reason,
    arrivalUs: timeline.arrivalUs,
    scheduledUs: timeline.scheduledUs,
    firstTokenUs: timeline.prefillEndUs,
    endUs: timeline.endUs,
    promptTokens: timeline.promptTokens,
    cachedTokens: timeline.cachedTokens,
    outputTokens: timeline.outputTokens,
    firstIter: runs[0] ?? 0,
    lastIter: (runs.at(-3) ?? 0) + (runs.at(-2) ?? 1) - 1,
    several: timeline.choices !== undefined,
  };
}

const minus = (now: KvCounts, before: KvCounts): KvCounts => ({
  allocated: now.allocated - before.allocated,
  allocatedNew: now.allocatedNew - before.allocatedNew,
  reused: now.reused - before.reused,
  reusedPartly: now.reusedPartly - before.reusedPartly,
  copied: now.copied - before.copied,
  missed: now.missed - before.missed,
  generated: now.generated - before.generated,
});

/** Reads a plan from the core's memory, once per iteration. */
class PlanView {
  readonly #trt: Int32Array;
  readonly #f64: Float64Array;
  #activeBefore = 0;

  constructor(
    private readonly core: Core,
    readonly blocksUsable: number,
  ) {
    const { buffer } = core.exports.memory;
    this.#trt = new Int32Array(buffer, core.exports.trtWordsAt!(), TrtWord.Count);
    this.#f64 = new Float64Array(buffer);
  }

  planning(): void {
    this.#activeBefore = this.core.views.word(Word.Running);
  }

  planned(iter: number, plannedUs: number): PlannedIteration {
    const { views } = this.core;
    const active = views.word(Word.Running);
    const generations = views.word(Word.PlanDecodes);
    // New requests are last in the active list.
    const newActive = Math.max(0, active - this.#activeBefore);
    const runningAt = (views.word(Word.RunningAt) >>> 0) >> 2;
    const arrivalAt = (views.word(Word.ArrivalAt) >>> 0) >> 3;
    let waitUs = 0;
    for (let i = active - newActive; i < active; i++)
      waitUs += Math.max(0, plannedUs - this.#f64[arrivalAt + views.i32[runningAt + i]!]!);
    return {
      iter,
      plannedUs,
      newActive,
      newActiveWaitUs: waitUs,
      active,
      contexts: views.word(Word.PlanRows) - generations,
      generations,
      contextTokens: views.word(Word.PlanPrefillTokens),
      contextKvTokens: this.#sum(TrtWord.ContextStartAt, TrtWord.Contexts, (start) => start),
      generationKvTokens: this.#sum(TrtWord.GenerationAt, TrtWord.Generations, (slot) => this.#lengthOf(slot)),
      paused: views.word(Word.PlanPreempted),
      pausedKvTokens: this.#sum(TrtWord.PausedAt, TrtWord.Paused, (slot) => this.#lengthOf(slot)),
    };
  }

  blocksUsed(): number {
    const { views } = this.core;
    return this.blocksUsable - views.word(Word.BlocksFree);
  }

  kv(): KvCounts {
    const totals = this.core.views.kvTotals!;
    return {
      allocated: totals[KvTotal.Allocated]!,
      allocatedNew: totals[KvTotal.AllocatedNew]!,
      reused: totals[KvTotal.Reused]!,
      reusedPartly: totals[KvTotal.ReusedPartly]!,
      copied: totals[KvTotal.Copied]!,
      missed: totals[KvTotal.Missed]!,
      generated: totals[KvTotal.Generated]!,
    };
  }

  /** Returns the prompt tokens of the last `count` requests in the queue. Returns 0 if the queue is ordered by priority. */
  lastWaiting(count: number): number {
    if (count === 0) return 0;
    const { views } = this.core;
    const nextAt = (views.word(Word.WaitNextAt) >>> 0) >> 2;
    const prompts: number[] = [];
    // Entries are slots plus one; 0 is the end.
    for (let place = views.word(Word.WaitHead); place > 0; place = views.i32[nextAt + place - 1]!)
      prompts.push(views.field(Field.Prompt, place - 1));
    return prompts.slice(-count).reduce((sum, tokens) => sum + tokens, 0);
  }

  #lengthOf(slot: number): number {
    const linesAt = (this.#trt[TrtWord.LinesAt]! >>> 0) >> 2;
    return this.core.views.i32[linesAt + slot * (LINE_BYTES >> 2) + LineField.Length]!;
  }

  #sum(at: TrtWord, count: TrtWord, numberOf: (word: number) => number): number {
    const { i32 } = this.core.views;
    const from = (this.#trt[at]! >>> 0) >> 2;
    let sum = 0;
    for (let i = from; i < from + this.#trt[count]!; i++) sum += numberOf(i32[i]!);
    return sum;
  }
}
