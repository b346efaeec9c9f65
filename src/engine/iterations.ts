/**
 * What does TensorRT-LLM's server learn of its engine? A record per iteration, a line per request that ended, events of the
 * KV cache; each in a queue of a stated size that a reader empties (`py_executor.py`, 1.3 line). Nothing of it exists in
 * other roles.
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

/** Blocks of the KV cache, counted since the start. */
export interface KvCounts {
  readonly allocated: number;
  readonly allocatedNew: number;
  readonly reused: number;
  readonly reusedPartly: number;
  readonly copied: number;
  readonly missed: number;
  readonly generated: number;
}

/** One iteration: its plan, and what stood when its outcome was taken in. Times in microseconds of the engine's clock. */
export interface Iteration {
  /** From 1. */
  readonly iter: number;
  readonly plannedUs: number;
  readonly endUs: number;
  /** Became active for this plan, and the sum of their waits. */
  readonly newActive: number;
  readonly newActiveWaitUs: number;
  /** Active when it was planned, scheduled or not. */
  readonly active: number;
  /** Arrived since a plan last looked, when it ended; the backlog behind the active list is in no statistic. */
  readonly queued: number;
  readonly queuedTokens: number;
  readonly completed: number;
  readonly contexts: number;
  readonly generations: number;
  readonly contextTokens: number;
  /** Context tokens before those: cached ones and earlier chunks. */
  readonly contextKvTokens: number;
  /** Prompt and answer so far of those that generate. */
  readonly generationKvTokens: number;
  readonly paused: number;
  readonly pausedKvTokens: number;
  readonly blocksUsed: number;
  /** Since the start, and in this iteration. */
  readonly kv: KvCounts;
  readonly kvHere: KvCounts;
  /** null: they are not noted. */
  readonly requests: readonly RequestState[] | null;
}

/** A request that ended; times as above, NaN where it did not come so far. */
export interface EndedRequest {
  /** From 1, in order of arrival. */
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
  /** One of several choices of its prompt. */
  readonly several: boolean;
}

/** Numbered from 0. */
export type KvEvent =
  | { readonly id: number; readonly kind: "created" }
  | {
      readonly id: number;
      readonly kind: "stored";
      /** null: they are first. */
      readonly parent: bigint | null;
      readonly hashes: readonly bigint[];
      /** Ids of all its blocks; empty where the cache keeps none. */
      readonly tokens: readonly number[];
    }
  | { readonly id: number; readonly kind: "removed"; readonly hashes: readonly bigint[] };

/** A queue of at most so many; the oldest are dropped. */
export class Backlog<T> {
  #kept: T[] = [];
  #arrived: (() => void)[] = [];

  constructor(readonly most: number) {}

  add(one: T): void {
    // Emptied in halves, so that dropping costs nothing by the piece.
    if (this.#kept.length >= 2 * this.most) this.#kept = this.#kept.slice(-this.most);
    this.#kept.push(one);
    for (const arrived of this.#arrived.splice(0)) arrived();
  }

  get isEmpty(): boolean {
    return this.#kept.length === 0;
  }

  /** All that is there, once. */
  take(): readonly T[] {
    const taken = this.#kept.slice(-this.most);
    this.#kept = [];
    return taken;
  }

  /** Called once, at the next that comes. */
  whenSome(act: () => void): void {
    this.#arrived.push(act);
  }
}

type Planned = Omit<
  Iteration,
  "endUs" | "queued" | "queuedTokens" | "completed" | "blocksUsed" | "kv" | "kvHere" | "requests"
>;

export class Iterations implements Observer {
  /** null: none are noted. */
  readonly records: Backlog<Iteration> | null;
  readonly requests: Backlog<EndedRequest> | null;
  readonly events: Backlog<KvEvent> | null;
  /** Requests of the last batch that was planned; 0 at rest. */
  batchSize = 0;
  /** Told of each request that ended, in a turn behind its end: its iteration was noted before. */
  ended: ((request: EndedRequest) => void) | null = null;
  /** How many of a prompt's choices have ended, and the first of them. */
  readonly #choices = new WeakMap<Choices, { readonly first: EndedRequest; readonly count: number }>();
  readonly #blocksUsable: number;
  /** Requests to `/v1/responses` count as others do. */
  readonly #countsResponses: boolean;
  readonly #requestBlockSize: number;
  #iter = 0;
  #eventId = 0;

  constructor(engine: Pick<EngineConfig, "numGpuBlocks" | "fixes" | "blockSize">, given: IterationsConfig) {
    this.#blocksUsable = engine.numGpuBlocks - 1;
    this.#countsResponses = engine.fixes?.includes("responses-counted") === true;
    this.#requestBlockSize = given.enableIterPerfStats && given.enableIterReqStats ? engine.blockSize : 0;
    const keeps = given.returnPerfMetrics && given.perfMetricsMaxRequests > 0;
    this.records = given.enableIterPerfStats ? new Backlog(given.iterStatsMaxIterations) : null;
    this.requests = keeps ? new Backlog(given.perfMetricsMaxRequests) : null;
    this.events = given.eventBufferMaxSize > 0 ? new Backlog(given.eventBufferMaxSize) : null;
    this.events?.add({ id: this.#eventId++, kind: "created" });
  }

  /** What looks at the engine's steps. */
  on(core: Core): LoopObserver {
    const { words } = core.views;
    const view = new PlanView(core, this.#blocksUsable);
    const open: Planned[] = [];
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
        // A loop that found nothing to run makes no record.
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

  /** The product's `openai_responses` extracts no metrics of a request (`openai_server.py`, TensorRT-LLM#13949). */
  request(timeline: RequestTimeline): void {
    const { choices, ofResponses } = timeline;
    if (ofResponses && !this.#countsResponses) return;
    const ended = endedOf(timeline);
    if (choices === undefined) this.#tell(ended, ended);
    else this.#choiceEnded(choices, ended);
  }

  #choiceEnded(choices: Choices, ended: EndedRequest): void {
    // Choices of a prompt are one request: told of when the last has ended, its times are those of the first choice.
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

  /** Takes what the cache has told since; consecutive removals are one event. */
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

/** Reads a plan out of the core's memory, once per iteration. */
class PlanView {
  readonly #core: Core;
  readonly #trt: Int32Array;
  readonly #f64: Float64Array;
  #activeBefore = 0;

  constructor(
    core: Core,
    readonly blocksUsable: number,
  ) {
    const { buffer } = core.exports.memory;
    this.#core = core;
    this.#trt = new Int32Array(buffer, core.exports.trtWordsAt!(), TrtWord.Count);
    this.#f64 = new Float64Array(buffer);
  }

  planning(): void {
    this.#activeBefore = this.#core.views.word(Word.Running);
  }

  planned(iter: number, plannedUs: number): Planned {
    const { views } = this.#core;
    const active = views.word(Word.Running);
    const generations = views.word(Word.PlanDecodes);
    // New ones are the last of the active list.
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
    const { views } = this.#core;
    return this.blocksUsable - views.word(Word.BlocksFree);
  }

  kv(): KvCounts {
    const totals = this.#core.views.kvTotals!;
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

  /** Prompt tokens of the last so many in the queue; 0 where it is ordered by priority, which has no last ones. */
  lastWaiting(count: number): number {
    if (count === 0) return 0;
    const { views } = this.#core;
    const nextAt = (views.word(Word.WaitNextAt) >>> 0) >> 2;
    const prompts: number[] = [];
    // Places are slots plus one, 0 is the end.
    for (let place = views.word(Word.WaitHead); place > 0; place = views.i32[nextAt + place - 1]!)
      prompts.push(views.field(Field.Prompt, place - 1));
    return prompts.slice(-count).reduce((sum, tokens) => sum + tokens, 0);
  }

  #lengthOf(slot: number): number {
    const linesAt = (this.#trt[TrtWord.LinesAt]! >>> 0) >> 2;
    return this.#core.views.i32[linesAt + slot * (LINE_BYTES >> 2) + LineField.Length]!;
  }

  #sum(at: TrtWord, count: TrtWord, numberOf: (word: number) => number): number {
    const { i32 } = this.#core.views;
    const from = (this.#trt[at]! >>> 0) >> 2;
    let sum = 0;
    for (let i = from; i < from + this.#trt[count]!; i++) sum += numberOf(i32[i]!);
    return sum;
  }
}
