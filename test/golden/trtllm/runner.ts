/**
 * Runs a recorded trace of TensorRT-LLM's scheduler on our core. It uses the recording's clock, adds requests when they are
 * due, plans and completes iterations, and returns the rows that we would have recorded.
 */
import {
  FEED,
  FEED_HALF,
  Field,
  OUT_FEED,
  OUT_REASON,
  OUT_WORDS,
  Reason,
  ROW_SAMPLES,
  SLOTS,
  Word,
} from "../../../assembly/layout.ts";
import { LineField, State, TrtWord } from "../../../assembly/trtllm/layout.ts";
import { Batch } from "../../../src/engine/batch.ts";
import { PLAIN } from "../../../src/engine/core-request.ts";
import { type Core, startCore } from "../../../src/engine/wasm/core.ts";
import type { Row } from "../trace.ts";
import { promptOf, type TrtTrace, type TrtTraceRequest, trtSetup } from "./trace.ts";
import { TrtViews } from "./views.ts";

/** A request in the core, with the state that the runner keeps. */
interface Live {
  readonly spec: TrtTraceRequest;
  readonly handle: number;
  /** Number of tokens received, including tokens that were generated a second time. */
  outputs: number;
  fed: number;
}

export class TrtRunner {
  readonly #trace: TrtTrace;
  readonly #core: Core;
  readonly #batch: Batch;
  readonly #views: TrtViews;
  /** Requests by slot. The last owner of a slot stays known until a new request gets the slot. */
  readonly #bySlot = new Map<number, Live>();
  readonly #byHandle = new Map<number, Live>();
  /** Handles of the requests that are active or waiting. */
  readonly #live = new Set<number>();
  #due: TrtTraceRequest[];
  #it = -1;
  #idle = true;
  #kv: number[] = [0, 0, 0, 0];
  readonly #sums = { iterations: 0, pauses: 0, fwd_tokens: 0, ctx_tokens: 0, max_used: 0, out_tokens: 0, discarded: 0 };

  constructor(trace: TrtTrace, module: WebAssembly.Module) {
    this.#trace = trace;
    this.#due = [...trace.requests];
    const longest = Math.max(
      1,
      ...trace.requests.map(({ prompt }) => prompt.reduce((sum, [, count]) => sum + count, 0)),
    );
    this.#core = startCore(module, trtSetup(trace.config, trace.overlap, longest));
    this.#batch = new Batch(this.#core);
    this.#views = new TrtViews(this.#core);
  }

  run(row: Row): Row {
    if (row.t === "it") return this.#iterate(row.it as number);
    if (row.t === "end") return this.#end();
    throw new Error(`unknown kind of row: ${row.t}`);
  }

  /**
   * Returns the number of the next iteration. While no request is active, the recording may skip iterations before the next
   * arrival.
   */
  #tick(recorded: number): number {
    const next = Math.min(...this.#due.map(({ at }) => at));
    const mayJump = this.#idle && recorded > this.#it && recorded <= next;
    this.#it = mayJump ? recorded : this.#it + 1;
    return this.#it;
  }

  #iterate(recorded: number): Row {
    const { overlap, config } = this.#trace;
    const it = this.#tick(recorded);
    for (const spec of this.#due.filter(({ at }) => at <= it)) this.#add(spec);
    this.#due = this.#due.filter(({ at }) => at > it);
    const before = this.#active();
    const toComplete = before.filter((slot) => this.#views.line(LineField.State, slot) === State.GenerationToComplete);
    this.#batch.plan(it);
    const slots = this.#active();
    this.#idle = slots.length === 0;
    const ids = (list: readonly number[]) => list.map((slot) => this.#bySlot.get(slot)!.spec.id);
    const planned: Row = { t: "it", it, new: ids(slots.slice(before.length)), wait: this.#word(Word.Waiting) };
    Object.assign(planned, { active: ids(slots), ...this.#plan(), ...this.#memory(slots) });
    if (overlap && toComplete.length) planned.to_complete = ids(toComplete);
    const paused = this.#views.list(TrtWord.PausedAt, TrtWord.Paused);
    // With overlap, this completes the step that was planned before this one.
    const takes = !overlap || this.#batch.open > 1;
    const taken = takes ? this.#take(it) : { fin: [], took: [], discarded: [] };
    Object.assign(planned, { fin: taken.fin, end_free: this.#word(Word.BlocksFree) });
    if (paused.length) {
      const line = (field: LineField, slot: number) => this.#views.line(field, slot);
      planned.after_pause = paused.map((slot) => {
        const tokens = line(LineField.Context, slot);
        return [...ids([slot]), tokens, line(LineField.End, slot) - tokens];
      });
    }
    if (overlap) planned.took = taken.took;
    if (taken.discarded.length) planned.discarded = taken.discarded;
    this.#sums.iterations++;
    this.#sums.pauses += paused.length;
    this.#sums.fwd_tokens += planned.fwd as number;
    this.#sums.ctx_tokens += (planned.fwd as number) - (planned.gen as number[]).length;
    this.#sums.max_used = Math.max(this.#sums.max_used, planned.used as number);
    if (config.enable_block_reuse) planned.kv = this.#kvMoved();
    return planned;
  }

  #add(spec: TrtTraceRequest): void {
    const prompt = promptOf(spec);
    const stops = spec.stop_at !== undefined && spec.stop_at < spec.max_new_tokens;
    const handle = this.#batch.add({
      ...PLAIN,
      prompt,
      promptTokens: prompt.length,
      maxTokens: spec.max_new_tokens,
      eosAt: stops ? spec.stop_at! : 0,
      seed: 0,
      // In the core, a smaller value means an earlier turn.
      priority: -Math.round((spec.priority ?? 0.5) * 1e6),
      order: spec.id,
      arrivalUs: 0,
      queuedUs: 0,
      fed: Array.from({ length: FEED }, (_, k) => this.#output(spec, k)),
    });
    const live: Live = { spec, handle, outputs: 0, fed: FEED };
    this.#bySlot.set(handle % SLOTS, live);
    this.#byHandle.set(handle, live);
    this.#live.add(handle);
  }

  #output({ id }: TrtTraceRequest, k: number): number {
    return this.#trace.outputBase + 10_000 * id + k;
  }

  /** Returns the decisions of the last plan under the recording's names. */
  #plan(): Row {
    const { views } = this.#core;
    const id = (slot: number) => this.#bySlot.get(slot)!.spec.id;
    const list = (at: TrtWord, count: TrtWord) => this.#views.list(at, count);
    const fit = list(TrtWord.FitAt, TrtWord.Fit);
    const reusable = list(TrtWord.FitReusableAt, TrtWord.Fit);
    const est = fit.flatMap((slot, i) => (this.#quiet || !reusable[i] ? [] : [[id(slot), reusable[i]!]]));
    const contexts = list(TrtWord.ContextAt, TrtWord.Contexts);
    const [from, chunk, start, taken, trimmed] = [
      TrtWord.ContextFromAt,
      TrtWord.ContextChunkAt,
      TrtWord.ContextStartAt,
      TrtWord.ContextTakenAt,
      TrtWord.ContextTrimAt,
    ].map((at) => list(at, TrtWord.Contexts)) as [number[], number[], number[], number[], number[]];
    const handles = views.list(Word.RowHandleAt, views.word(Word.PlanRows));
    const flags = views.list(Word.RowFlagsAt, views.word(Word.PlanRows));
    const rows = handles.map((handle) => this.#byHandle.get(handle)!.spec.id);
    const order = rows.slice(0, contexts.length);
    const ends = (slot: number) => flags[order.indexOf(id(slot))]! & ROW_SAMPLES;
    const ctx = contexts.map((slot, i) => [id(slot), from[i]!, chunk[i]!, start[i]!, taken[i]!, ends(slot)]);
    const trim = contexts.flatMap((slot, i) => (trimmed[i] ? [[id(slot), trimmed[i]!]] : []));
    const plan: Row = { fit: fit.map(id), pause: list(TrtWord.PausedAt, TrtWord.Paused).map(id) };
    Object.assign(plan, { gen: rows.slice(contexts.length), charged: this.#views.word(TrtWord.Charged) });
    Object.assign(plan, {
      all_fit: this.#views.word(TrtWord.AllFit) !== 0,
      ctx,
      fwd: this.#views.word(TrtWord.ForwardTokens),
    });
    if (est.length) plan.est = est;
    if (trim.length) plan.trim = trim;
    if (JSON.stringify(order) !== JSON.stringify(contexts.map(id))) plan.ctx_order = order;
    return plan;
  }

  /** True if the plan only has decodes. Such a plan does not look up the cache. */
  get #quiet(): boolean {
    return this.#views.word(TrtWord.Contexts) === 0 && this.#views.word(TrtWord.FitAt) === this.#word(Word.RunningAt);
  }

  #memory(slots: readonly number[]): Row {
    const { views } = this.#core;
    const held = slots.map((slot) => [this.#bySlot.get(slot)!.spec.id, views.field(Field.TableCount, slot)]);
    const free = this.#word(Word.BlocksFree);
    return { blocks: held.filter(([, count]) => count! > 0), used: this.#trace.config.num_blocks - free, free };
  }

  #take(it: number): { fin: unknown[]; took: number[]; discarded: number[] } {
    const { views } = this.#core;
    const rows = this.#batch.take(it);
    const fin: [number, string, number][] = [];
    const took: number[] = [];
    const discarded: number[] = [];
    for (const handle of views.list(Word.LostAt, this.#word(Word.OutLost))) {
      const live = this.#byHandle.get(handle)!;
      if (this.#live.has(handle)) this.#count(live);
      else {
        discarded.push(live.spec.id);
        this.#sums.discarded++;
      }
    }
    for (let i = 0; i < rows; i++) {
      const [slot, , , flags] = views.out.subarray(i * OUT_WORDS, (i + 1) * OUT_WORDS) as unknown as number[];
      const live = this.#bySlot.get(slot!)!;
      this.#count(live);
      took.push(live.spec.id);
      const reason = (flags! & OUT_REASON) - 1;
      if (reason >= 0) {
        this.#live.delete(live.handle);
        fin.push([live.spec.id, reason === Reason.Stop ? "stop" : "length", live.outputs]);
      } else if (flags! & OUT_FEED) {
        const more = Array.from({ length: FEED_HALF }, (_, k) => this.#output(live.spec, live.fed + k));
        this.#batch.feed(live.handle, more);
        live.fed += FEED_HALF;
      }
    }
    // Requests free their blocks in the order of the active list, which is the order of arrival here.
    const order = (id: number) => this.#order.indexOf(id);
    return { fin: fin.toSorted((a, b) => order(a[0]) - order(b[0])), took, discarded };
  }

  #count(live: Live): void {
    live.outputs++;
    this.#sums.out_tokens++;
  }

  #end(): Row {
    const { discarded, ...sums } = this.#sums;
    return { t: "end", ...sums, ...(this.#trace.overlap ? { discarded } : {}), kv: this.#views.totals() };
  }

  #kvMoved(): number[] {
    const totals = this.#views.totals();
    const moved = totals.map((total, i) => total - this.#kv[i]!);
    this.#kv = totals;
    return moved;
  }

  /** Ids in the order of the last plan's active list. */
  #order: number[] = [];
  #active(): number[] {
    const slots = this.#core.views.list(Word.RunningAt, this.#word(Word.Running));
    this.#order = slots.map((slot) => this.#bySlot.get(slot)!.spec.id);
    return slots;
  }

  #word(word: Word): number {
    return this.#core.views.word(word);
  }
}
