/** Runs the core and its model side by side: both get each call, then all their visible state is compared. */

import { expect } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  FEED,
  FEED_HALF,
  Field,
  NONE,
  OUT_FEED,
  OUT_FIRST,
  OUT_REASON,
  OUT_STOP_ID,
  OUT_WORDS,
  type Pause,
  type Reason,
  ROW_SAMPLES,
  SLOTS,
  SUBMIT_BLOCKED,
  SUBMIT_SKIP_READING,
  Total,
  Word,
} from "../../assembly/layout.ts";
import { Batch } from "../../src/engine/batch.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import { PLAIN } from "../../src/engine/core-request.ts";
import { saltWords } from "../../src/engine/salt.ts";
import { coreSetup } from "../../src/engine/setup.ts";
import { type Core, startCore } from "../../src/engine/wasm/core.ts";
import { blockTable, freeQueue } from "./core-lists.ts";
import type { Output, PlanResult, Spec, TakeResult } from "./model-types.ts";
import { SchedulerModel } from "./scheduler-model.ts";

export const EOS = 2;

/** Adapter numbers in the histories are below this. */
const MOST_ADAPTERS = 5;

const moduleOf = (name: string) => new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build", name)));
export const builds = [
  ["release core", moduleOf("core.wasm")],
  ["debug core", moduleOf("core.debug.wasm")],
] as const;

/** A request. If `fed`, the test feeds its outputs, in pages. Otherwise the core draws them from the seed. */
export interface PairRequest extends Spec {
  readonly fed: boolean;
  readonly seed: number;
}

export class Pair {
  readonly core: Core;
  readonly batch: Batch;
  readonly model: SchedulerModel;
  readonly #handles = new Map<number, number>();
  readonly #requests = new Map<number, PairRequest>();
  readonly #fedUpTo = new Map<number, number>();
  readonly #bySlot = new Map<number, number>();
  #now = 0;
  /** Counts of the situations that occurred, so that tests can check that their histories are not trivial. */
  readonly seen = {
    calls: 0,
    rows: 0,
    preempted: 0,
    undone: 0,
    refused: 0,
    deferred: 0,
    unblocked: 0,
    lost: 0,
    stopIds: 0,
    reused: 0,
  };

  constructor(config: EngineConfig, module: WebAssembly.Module) {
    this.core = startCore(module, coreSetup(config, { eosId: EOS }));
    this.batch = new Batch(this.core);
    this.model = new SchedulerModel(config, EOS);
    this.#compareState();
  }

  add(spec: PairRequest): void {
    const salt = saltWords(spec.salt);
    const handle = this.batch.add({
      ...PLAIN,
      prompt: spec.prompt,
      promptTokens: spec.prompt.length,
      maxTokens: spec.maxTokens,
      minTokens: 0,
      eosAt: 0,
      stopTokenIds: spec.stopIds,
      seed: spec.seed,
      priority: spec.priority,
      adapter: spec.adapter,
      saltLo: salt.lo,
      saltHi: salt.hi,
      flags: (spec.skip ? SUBMIT_SKIP_READING : 0) | (spec.blocked ? SUBMIT_BLOCKED : 0),
      order: spec.no,
      arrivalUs: spec.arrivalUs,
      queuedUs: 0,
      ...(spec.fed ? { fed: outputs(spec, 0, FEED) } : {}),
    });
    expect(handle).not.toBe(NONE);
    this.#handles.set(spec.no, handle);
    this.#requests.set(spec.no, spec);
    this.#fedUpTo.set(spec.no, FEED);
    this.#bySlot.set(handle % SLOTS, spec.no);
    this.model.add(spec);
    this.#compareState();
  }

  close(no: number, reason: Reason): void {
    const ours = this.batch.close(this.#handles.get(no)!, reason, 1, this.#now);
    expect(ours).toBe(this.model.close(no, reason));
    this.#compareState();
  }

  unblock(no: number): void {
    if (this.model.requests.get(no)?.blocked) this.seen.unblocked++;
    expect(this.batch.unblock(this.#handles.get(no)!)).toBe(this.model.unblock(no));
    this.#compareState();
  }

  flush(): void {
    this.batch.flush();
    this.model.flush();
    this.#compareState();
  }

  pause(state: Pause): void {
    this.batch.pause(state);
    this.model.pause(state);
    this.#compareState();
  }

  reset(force: boolean): void {
    const done = this.batch.resetPrefixCache(force);
    const preempted = this.#numbers(Word.PreemptedAt, Word.PlanPreempted);
    expect({ done, preempted }).toEqual(this.model.reset(force));
    this.#compareState();
  }

  plan(): PlanResult {
    const { views } = this.core;
    this.batch.plan(this.#now++);
    const count = views.word(Word.PlanRows);
    const tokens = views.list(Word.RowTokensAt, count);
    const flags = views.list(Word.RowFlagsAt, count);
    const ours: PlanResult = {
      rows: views.list(Word.RowHandleAt, count).map((handle, i) => ({
        no: this.#bySlot.get(handle % SLOTS)!,
        tokens: tokens[i]!,
        computed: views.field(Field.Computed, handle % SLOTS),
        samples: (flags[i]! & ROW_SAMPLES) !== 0,
        newBlocks: flags[i]! >> 1,
      })),
      admitted: views.word(Word.PlanAdmitted),
      preempted: this.#numbers(Word.PreemptedAt, Word.PlanPreempted),
      undone: this.#numbers(Word.UndoneAt, Word.PlanUndone),
      refused: this.#numbers(Word.RefusedAt, Word.PlanRefused),
      ended: this.#numbers(Word.ReportedAt, Word.PlanReported),
    };
    expect(ours).toEqual(this.model.plan());
    this.seen.rows += ours.rows.length;
    this.seen.preempted += ours.preempted.length;
    this.seen.undone += ours.undone.length;
    this.seen.refused += ours.refused.length;
    this.#compareState();
    return ours;
  }

  take(): TakeResult {
    const { views } = this.core;
    const rows = this.batch.take(this.#now);
    const feeds: number[] = [];
    const out = Array.from({ length: rows }, (_, row): Output => {
      const [slot, at, count, flags] = views.out.subarray(
        row * OUT_WORDS,
        (row + 1) * OUT_WORDS,
      ) as unknown as number[];
      const no = this.#bySlot.get(slot!)!;
      expect(count).toBe(1);
      const reason = (flags! & OUT_REASON) - 1;
      if (flags! & OUT_FEED && reason < 0) feeds.push(no);
      const first = [views.cachedPrompt[slot!]! - 1, views.createdPrompt[slot!]!] as const;
      return {
        no,
        token: views.tokens[at!]!,
        reason: reason < 0 ? null : reason,
        byStopId: (flags! & OUT_STOP_ID) !== 0,
        first: flags! & OUT_FIRST ? first : null,
      };
    });
    const ours = { out, lost: this.#numbers(Word.LostAt, Word.OutLost) };
    expect(ours).toEqual(this.model.take());
    this.seen.lost += ours.lost.length;
    for (const { byStopId, first } of out) {
      if (byStopId) this.seen.stopIds++;
      if (first && first[0] > 0) this.seen.reused++;
    }
    for (const no of feeds) {
      const from = this.#fedUpTo.get(no)!;
      this.batch.feed(this.#handles.get(no)!, outputs(this.#requests.get(no)!, from, FEED_HALF));
      this.#fedUpTo.set(no, from + FEED_HALF);
    }
    this.#compareState();
    return ours;
  }

  #compareState(): void {
    const { core, model } = this;
    this.seen.calls++;
    core.exports.verify();
    const { views } = core;
    const running = views.list(Word.RunningAt, views.word(Word.Running));
    const waiting = this.#waiting();
    const of = (slots: number[]) => slots.map((slot) => this.#bySlot.get(slot)!);
    const tables = running.map((slot) => blockTable(views, slot));
    const ours = {
      running: of(running),
      waiting: of(waiting),
      deferred: of(waiting.filter((slot) => views.deferred[slot])),
      free: freeQueue(views),
      tables,
      adapters: [Word.AdapterRunningAt, Word.AdapterWaitingAt].map((word) => views.list(word, MOST_ADAPTERS)),
      hasWork: this.batch.hasWork,
      open: this.batch.open,
      totals: Array.from({ length: Total.Count }, (_, total) => core.total(total as Total)),
    };
    const ids = (blocks: readonly { id: number }[]) => blocks.map(({ id }) => id);
    const numbers = (requests: readonly { spec: Spec }[]) => requests.map(({ spec }) => spec.no);
    expect(ours).toEqual({
      running: numbers(model.running),
      waiting: numbers(model.waiting),
      deferred: numbers(model.waiting.filter(({ deferred }) => deferred)),
      free: ids(model.pool.free),
      tables: model.running.map(({ table }) => ids(table)),
      adapters: [model.running, model.waiting].map(adaptersOf),
      hasWork: model.hasWork,
      open: model.open,
      totals: model.totals,
    });
    expect(views.word(Word.BlocksFree)).toBe(model.pool.free.length);
    expect(views.word(Word.Deferred)).toBe(ours.deferred.length);
    this.seen.deferred += ours.deferred.length;
    expect(views.word(Word.SlotsUsed)).toBe(model.requests.size);
  }

  /** Slots in the order in which the queue would return them. */
  #waiting(): number[] {
    const { views } = this.core;
    const count = views.word(Word.Waiting);
    if (this.model.config.schedulingPolicy === "priority") {
      const requestOf = (slot: number) => this.#requests.get(this.#bySlot.get(slot)!)!;
      return views.list(Word.HeapAt, count).sort((x, y) => {
        const [a, b] = [requestOf(x), requestOf(y)];
        return a.priority - b.priority || a.arrivalUs - b.arrivalUs || a.no - b.no;
      });
    }
    const next = (views.word(Word.WaitNextAt) >>> 0) >> 2;
    const slots: number[] = [];
    for (let at = views.word(Word.WaitHead); at !== 0; at = views.i32[next + at - 1]!) slots.push(at - 1);
    expect(slots.length).toBe(count);
    return slots;
  }

  #numbers(list: Word, count: Word): number[] {
    const { views } = this.core;
    return views.list(list, views.word(count)).map((handle) => {
      const found = [...this.#handles].find(([, other]) => other === handle);
      return found![0];
    });
  }
}

/** Counts requests by adapter, without those that have none. */
function adaptersOf(requests: readonly { spec: Spec }[]): number[] {
  const counts = new Array<number>(MOST_ADAPTERS).fill(0);
  for (const { spec } of requests) if (spec.adapter > 0) counts[spec.adapter]!++;
  return counts;
}

function outputs({ outputAt }: Spec, from: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => outputAt(from + i));
}
