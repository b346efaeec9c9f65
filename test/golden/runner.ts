/**
 * Runs a recorded trace on our core, row by row, with the calls that the server uses, and returns the rows that we would have
 * recorded. It only uses add, abort, reset, pause, plan, take and feed.
 */

import {
  Event,
  FEED,
  FEED_HALF,
  Field,
  OUT_FEED,
  OUT_FIRST,
  OUT_REASON,
  OUT_STOP_ID,
  OUT_WORDS,
  Pause,
  Reason,
  ROW_SAMPLES,
  SLOTS,
  Status,
  SUBMIT_BLOCKED,
  SUBMIT_SKIP_READING,
  Total,
  Word,
} from "../../assembly/layout.ts";
import { Batch } from "../../src/engine/batch.ts";
import { type CoreRequest, PLAIN } from "../../src/engine/core-request.ts";
import { saltWords } from "../../src/engine/salt.ts";
import { type Core, startCore } from "../../src/engine/wasm/core.ts";
import { blockTable, freeQueue } from "../assembly/core-lists.ts";
import { coreConfig } from "./core-config.ts";
import { directly } from "./request-path.ts";
import { filled, fnv, outputOf, promptOf, type Row, type Trace, type TraceRequest } from "./trace.ts";

/** A request in the core, with the state that the runner keeps. */
interface Live {
  readonly spec: TraceRequest;
  readonly handle: number;
  /** Lifecycle letters that the next output delivers. */
  events: string;
  fed: number;
}

export class Runner {
  readonly #trace: Trace;
  readonly #core: Core;
  readonly #batch: Batch;
  /** Requests by slot. The last owner of a slot stays known until a new request gets the slot. */
  readonly #bySlot = new Map<number, Live>();
  readonly #byHandle = new Map<number, Live>();
  readonly #live = new Map<number, Live>();
  readonly #ended = new Set<number>();
  readonly #hashNumbers = new Map<string, number>();
  #before: number[];
  readonly #adapters: number[] = [];
  #arrivals = 0;
  #calls = 0;
  readonly #totals: Record<string, number> = {};

  constructor(
    trace: Trace,
    module: WebAssembly.Module,
    private readonly path = directly,
  ) {
    this.#trace = trace;
    const lengths = [...trace.requests.values()].map((r) => r.prompt.reduce((sum, [, , length]) => sum + length, 0));
    this.#core = startCore(module, { config: coreConfig(trace.config, trace.eos, Math.max(0, ...lengths)) });
    this.#batch = new Batch(this.#core);
    this.#before = this.#prefixTotals();
    for (const key of ["schedules", "tokens", "scheduled_requests", "preemptions", "requests"]) this.#totals[key] = 0;
    for (const key of ["queries", "hits", "p_requests", "p_queries", "p_hits"]) this.#totals[key] = 0;
  }

  /** Carries out the row and returns our row. */
  run(row: Row): Row {
    switch (row.t) {
      case "add":
        return this.#add(row.r as number);
      case "abort":
        return this.#abort(row.r as number);
      case "release":
        return this.#release(row.r as number);
      case "reset":
        return this.#reset(row.running as boolean);
      case "pause":
        return this.#pause(row.state as string);
      case "s":
        return this.#schedule();
      case "u":
        return this.#update();
      case "end":
        return this.#end();
      default:
        throw new Error(`unknown kind of row: ${row.t}`);
    }
  }

  #add(r: number): Row {
    const spec = this.#trace.requests.get(r);
    if (!spec) throw new Error(`row adds a request that no req row describes: ${r}`);
    const prompt = promptOf(spec);
    const salt = saltWords(spec.cache_salt ?? "");
    const fed = Array.from({ length: FEED }, (_, k) => this.#output(spec, k));
    const request: CoreRequest = {
      ...PLAIN,
      prompt,
      promptTokens: prompt.length,
      maxTokens: spec.max_tokens,
      minTokens: 0,
      eosAt: 0,
      stopTokenIds: this.#trace.stopTokenIds,
      seed: 0,
      priority: spec.priority ?? 0,
      adapter: this.#adapterOf(spec.lora ?? 0),
      saltLo: salt.lo,
      saltHi: salt.hi,
      flags: (spec.skip_reading ? SUBMIT_SKIP_READING : 0) | (spec.blocked ? SUBMIT_BLOCKED : 0),
      order: r,
      arrivalUs: spec.arrival_time ?? this.#arrivals,
      queuedUs: 0,
      fed,
    };
    const handle = this.#batch.add(this.path(request, spec.cache_salt));
    this.#arrivals++;
    const live: Live = { spec, handle, events: "Q", fed: FEED };
    this.#bySlot.set(handle % SLOTS, live);
    this.#byHandle.set(handle, live);
    this.#live.set(r, live);
    return { t: "add", r };
  }

  /** Maps the adapter number of the recording to a small number, which the core needs. 0 means no adapter. */
  #adapterOf(lora: number): number {
    if (lora === 0) return 0;
    if (!this.#adapters.includes(lora)) this.#adapters.push(lora);
    return this.#adapters.indexOf(lora) + 1;
  }

  #abort(r: number): Row {
    const live = this.#live.get(r);
    const was = live ? statusName(this.#core.views.field(Field.Status, live.handle % SLOTS)) : null;
    if (live) {
      this.#batch.close(live.handle, Reason.Abort, 0, this.#calls);
      this.#batch.flush();
      this.#gone(r, "abort");
    }
    return this.#state({ t: "abort", r, was });
  }

  #release(r: number): Row {
    const live = this.#live.get(r);
    if (live) this.#batch.unblock(live.handle);
    return { t: "release", r };
  }

  #reset(running: boolean): Row {
    const ok = this.#batch.resetPrefixCache(running);
    const pre = this.#owners(Word.PreemptedAt, Word.PlanPreempted);
    for (const r of pre) this.#live.get(r)!.events += "P";
    this.#sum({ preemptions: pre.length });
    return this.#state({ t: "reset", running, ok, ...(pre.length ? { pre } : {}) });
  }

  #pause(state: string): Row {
    const states = { UNPAUSED: Pause.Unpaused, PAUSED_NEW: Pause.PausedNew, PAUSED_ALL: Pause.PausedAll };
    if (!(state in states)) throw new Error(`unknown pause state: ${state}`);
    this.#batch.pause(states[state as keyof typeof states]);
    return { t: "pause", state };
  }

  #schedule(): Row {
    const { views } = this.#core;
    this.#batch.plan(++this.#calls);
    const rows = views.word(Word.PlanRows);
    const admitted = views.word(Word.PlanAdmitted);
    const handles = views.list(Word.RowHandleAt, rows);
    const tokens = views.list(Word.RowTokensAt, rows);
    const flags = views.list(Word.RowFlagsAt, rows);
    const n: number[][] = [];
    const adm: unknown[] = [];
    const blk: unknown[] = [];
    const pre = this.#owners(Word.PreemptedAt, Word.PlanPreempted);
    for (const r of pre) this.#live.get(r)!.events += "P";
    handles.forEach((handle, i) => {
      const slot = handle % SLOTS;
      const live = this.#bySlot.get(slot)!;
      const table = blockTable(views, slot);
      const computed = views.field(Field.Computed, slot);
      n.push([live.spec.r, tokens[i]!, computed]);
      const taken = flags[i]! >> Math.log2(ROW_SAMPLES * 2);
      if (i >= admitted) {
        adm.push([
          live.spec.r,
          live.events.includes("S") || this.#resumed(slot) ? "resumed" : "new",
          computed - tokens[i]!,
          table,
        ]);
        live.events += "S";
      } else if (taken > 0) blk.push([live.spec.r, table.slice(table.length - taken)]);
    });
    const undo = this.#owners(Word.UndoneAt, Word.PlanUndone);
    const refused = this.#owners(Word.RefusedAt, Word.PlanRefused);
    const fin = this.#owners(Word.ReportedAt, Word.PlanReported).sort((a, b) => a - b);
    this.#sum({
      schedules: 1,
      scheduled_requests: rows,
      tokens: tokens.reduce((a, b) => a + b, 0),
      preemptions: pre.length,
    });
    this.#sum({ unscheduled: undo.length });
    const row: Row = { t: "s", k: views.word(Word.PlanStep), n };
    Object.assign(row, filled({ adm, blk, pre, undo, refused, fin }));
    return this.#state(row);
  }

  #update(): Row {
    const { views } = this.#core;
    const rows = this.#batch.take(this.#calls);
    const out: unknown[] = [];
    const first: unknown[] = [];
    const evt: unknown[] = [];
    const lost = this.#owners(Word.LostAt, Word.OutLost);
    for (let i = 0; i < rows; i++) {
      const [slot, at, , flags] = views.out.subarray(i * OUT_WORDS, (i + 1) * OUT_WORDS) as unknown as number[];
      const live = this.#bySlot.get(slot!)!;
      const { r } = live.spec;
      const token = views.tokens[at!]!;
      const entry: unknown[] = [r, token];
      const reason = (flags! & OUT_REASON) - 1;
      if (reason >= 0) entry.push(reason === Reason.Stop ? "stop" : "length");
      if (flags! & OUT_STOP_ID) entry.push(token);
      out.push(entry);
      if (flags! & OUT_FIRST) {
        const cached = views.cachedPrompt[slot!]! - 1;
        const prompt = views.field(Field.Prompt, slot!);
        first.push([r, prompt, cached, prompt - cached, views.createdPrompt[slot!]]);
      }
      if (live.events) evt.push([r, live.events]);
      live.events = "";
      if (reason >= 0) this.#gone(r, reason === Reason.Stop ? "stop" : "length");
      else if (flags! & OUT_FEED) {
        this.#batch.feed(
          live.handle,
          Array.from({ length: FEED_HALF }, (_, k) => this.#output(live.spec, live.fed + k)),
        );
        live.fed += FEED_HALF;
      }
    }
    const usable = this.#trace.config.num_gpu_blocks - 1;
    const deferred = views.word(Word.Deferred);
    const usage = 1.0 - views.word(Word.BlocksFree) / usable;
    const st = [views.word(Word.Running), views.word(Word.Waiting) - deferred, deferred, usage];
    const row: Row = { t: "u", k: this.#updated++ + 1, out, ...filled({ first, evt, lost }), st };
    const totals = this.#prefixTotals();
    const pc = totals.map((value, i) => value - this.#before[i]!);
    pc[6] = Math.min(pc[6]!, 1);
    this.#before = totals;
    if (pc.some((value) => value !== 0)) row.pc = pc;
    const [requests, queries, hits, p_requests, p_queries, p_hits] = pc as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    this.#sum({ requests, queries, hits, p_requests, p_queries, p_hits });
    return this.#state(row);
  }
  #updated = 0;

  #end(): Row {
    return { t: "end", ...this.#totals };
  }

  #state(row: Row): Row {
    const { views } = this.#core;
    const run = this.#slots(views.list(Word.RunningAt, views.word(Word.Running)));
    const wait = this.#slots(this.#waiting());
    const lean = this.#trace.detail === "lean";
    row.run = lean ? [run.length, fnv(run)] : run;
    row.wait = lean ? [wait.length, fnv(wait)] : wait;
    const skip = wait.filter((r) => views.deferred[this.#live.get(r)!.handle % SLOTS]).sort((a, b) => a - b);
    if (skip.length) row.skip = skip;
    const free = freeQueue(views);
    row.free = views.word(Word.BlocksFree);
    if (!lean || this.#calls % 50 === 0) row.fq = [free.slice(0, 4), free.slice(-4), fnv(free)];
    const ev = this.#events();
    if (ev.length) row.ev = ev;
    const evict = ev.filter(([kind]) => kind === "R").length;
    if (evict) row.evict = evict;
    this.#sum({
      removed: evict,
      stored: ev.reduce((sum, e) => sum + (e[0] === "S" ? (e[2] as number[]).length : 0), 0),
    });
    return row;
  }

  /** Returns the slots in the order in which the queue would return them. */
  #waiting(): number[] {
    const { views } = this.#core;
    const count = views.word(Word.Waiting);
    if (this.#trace.config.policy === "priority") {
      const key = (slot: number) => this.#bySlot.get(slot)!;
      return views.list(Word.HeapAt, count).sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const arrival = (live: Live) => this.#arrivalOf(live);
        return (x.spec.priority ?? 0) - (y.spec.priority ?? 0) || arrival(x) - arrival(y) || x.spec.r - y.spec.r;
      });
    }
    const next = (views.word(Word.WaitNextAt) >>> 0) >> 2;
    const slots: number[] = [];
    for (let at = views.word(Word.WaitHead); at !== 0; at = views.i32[next + at - 1]!) slots.push(at - 1);
    return slots;
  }

  #arrivalOf(live: Live): number {
    const { views } = this.#core;
    return new Float64Array(views.words.buffer, views.word(Word.ArrivalAt) >>> 0, SLOTS)[live.handle % SLOTS]!;
  }

  #events(): unknown[][] {
    const { views, exports } = this.#core;
    const words = views.list(Word.EventsAt, views.word(Word.EventWords));
    exports.drainEvents();
    if (views.word(Word.EventsLost)) throw new Error("the core dropped events");
    const events: unknown[][] = [];
    const number = (at: number) => this.#numberOf(words[at]!, words[at + 1]!);
    for (let at = 0; at < words.length; ) {
      const kind = words[at];
      if (kind === Event.Stored) {
        const [slot, from, count] = words.slice(at + 1, at + 4) as [number, number, number];
        const hashes = Array.from({ length: count }, (_, i) => at + 6 + 2 * i);
        const parent = from > 0 ? number(at + 4) : null;
        const event: unknown[] = ["S", parent, hashes.map(number)];
        const { lora, cache_salt } = this.#bySlot.get(slot)!.spec;
        const extra = hashes
          .map((_, i) => [...(lora ? [`lora-${lora}`] : []), ...(cache_salt && from + i === 0 ? [cache_salt] : [])])
          .filter((keys) => keys.length);
        if (extra.length) event.push(extra);
        events.push(event);
        at += 6 + 2 * count;
      } else if (kind === Event.Removed) {
        events.push(["R", [number(at + 2)]]);
        at += 4;
      } else {
        events.push(["C"]);
        at += 1;
      }
    }
    return events;
  }

  #numberOf(lo: number, hi: number): number {
    const key = `${lo >>> 0}:${hi >>> 0}`;
    const known = this.#hashNumbers.get(key);
    if (known !== undefined) return known;
    this.#hashNumbers.set(key, this.#hashNumbers.size);
    return this.#hashNumbers.size - 1;
  }

  #output(spec: TraceRequest, k: number): number {
    return outputOf(spec, k, this.#trace.eos, this.#trace.stopTokenIds[0] ?? -1);
  }

  #resumed(slot: number): boolean {
    const { views } = this.#core;
    return views.i32[((views.word(Word.PreemptionsAt) >>> 0) >> 2) + slot]! > 0;
  }

  #owners(list: Word, count: Word): number[] {
    const { views } = this.#core;
    return views.list(list, views.word(count)).map((handle) => this.#byHandle.get(handle)!.spec.r);
  }
  #slots(slots: number[]): number[] {
    return slots.map((slot) => this.#bySlot.get(slot)!.spec.r);
  }

  #gone(r: number, outcome: string): void {
    this.#live.delete(r);
    this.#ended.add(r);
    this.#sum({ [outcome]: 1 });
  }
  #sum(values: Record<string, number>): void {
    for (const [key, value] of Object.entries(values)) {
      if (value || key in this.#totals) this.#totals[key] = (this.#totals[key] ?? 0) + value;
    }
  }
  #prefixTotals(): number[] {
    const names = [Total.PrefixRequests, Total.PrefixQueries, Total.PrefixHits];
    const again = [Total.PreemptedRequests, Total.PreemptedQueries, Total.PreemptedHits];
    return [...names, ...again, Total.PrefixResets].map((total) => this.#core.total(total));
  }
}

function statusName(status: number): string {
  return status === Status.Running ? "RUNNING" : status === Status.Preempted ? "PREEMPTED" : "WAITING";
}
