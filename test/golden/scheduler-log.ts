/**
 * Runs a scenario of the second recording, `recorded/vllm-0.33.0-scheduler.json`, on our core and writes our log in its form.
 * That recording was made separately from the traces. It has real request names and one log per scenario.
 */

import {
  FEED,
  FEED_HALF,
  OUT_FEED,
  OUT_REASON,
  OUT_WORDS,
  Reason,
  SLOTS,
  SUBMIT_BLOCKED,
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
import { type Row, refuseOthers, type TraceConfig } from "./trace.ts";

/** `no` is the request's number, `at` the schedule call before which it is added, `n` its prompt tokens, `mt` max_tokens. */
export interface LogRequest {
  readonly no: number;
  readonly at: number;
  readonly n: number;
  readonly mt: number;
  /** The first `plen` prompt tokens are those of the shared prefix `pfx`. */
  readonly pfx?: number;
  readonly plen?: number;
  readonly prio?: number;
  readonly eos_at?: number;
  readonly salt?: string;
  readonly lora?: number;
  /** The request is added waiting for its grammar, which is ready at the schedule call with this number. */
  readonly gram_ready?: number;
}

const REQUEST_KEYS = "no at n mt pfx plen prio eos_at salt lora gram_ready".split(" ");

export interface Scenario {
  readonly name: string;
  readonly config: TraceConfig;
  readonly requests: readonly LogRequest[];
  readonly log: Row[];
}

const EOS = 2;
const REASONS = ["stop", "length"] as const;

interface Live {
  readonly request: LogRequest;
  readonly handle: number;
  fed: number;
  /** Length of the block table at the last row that showed it. */
  shown: number;
}

export class LogRunner {
  readonly #scenario: Scenario;
  readonly #core: Core;
  readonly #batch: Batch;
  readonly #bySlot = new Map<number, Live>();
  readonly #byName = new Map<string, Live>();
  /** Numbers of the open steps. The recording skips a number if its loop had nothing to schedule. */
  readonly #open: number[] = [];
  #last = 0;
  #arrivals = 0;
  #totals: number[];

  constructor(
    scenario: Scenario,
    module: WebAssembly.Module,
    private readonly path = directly,
  ) {
    const { config, requests } = scenario;
    refuseOthers(scenario, ["name", "config", "requests", "log"], "the scenario");
    for (const request of requests) refuseOthers(request, REQUEST_KEYS, "a request");
    this.#scenario = scenario;
    this.#core = startCore(module, { config: coreConfig(config, EOS, Math.max(0, ...requests.map(({ n }) => n))) });
    this.#batch = new Batch(this.#core);
    this.#totals = this.#prefixTotals();
  }

  /** Carries out the row's instruction and returns our row. */
  run(row: Row): Row {
    if ("s" in row) return this.#schedule(row.s as number);
    if ("u" in row) return this.#update();
    if ("abort" in row) return this.#abort(row.abort as string);
    throw new Error(`unknown kind of row: ${Object.keys(row)}`);
  }

  #add(request: LogRequest): void {
    const { no, n, mt, pfx = 0, plen = 0, prio = 0, lora = 0 } = request;
    const salt = saltWords(request.salt ?? "");
    const recorded: CoreRequest = {
      ...PLAIN,
      prompt: Array.from({ length: n }, (_, i) => (i < plen ? pfx * 100_000 + i : 10_000_000 + no * 10_000 + i)),
      promptTokens: n,
      maxTokens: mt,
      minTokens: 0,
      eosAt: 0,
      stopTokenIds: [],
      seed: 0,
      priority: prio,
      adapter: lora,
      saltLo: salt.lo,
      saltHi: salt.hi,
      flags: request.gram_ready === undefined ? 0 : SUBMIT_BLOCKED,
      order: no,
      arrivalUs: this.#arrivals++,
      queuedUs: 0,
      fed: outputs(request, 0, FEED),
    };
    const handle = this.#batch.add(this.path(recorded, request.salt));
    const live: Live = { request, handle, fed: FEED, shown: 0 };
    this.#bySlot.set(handle % SLOTS, live);
    this.#byName.set(`r${no}`, live);
  }

  #schedule(s: number): Row {
    const { views } = this.#core;
    for (const request of this.#scenario.requests) {
      if (request.at > this.#last && request.at <= s) this.#add(request);
      const { no, gram_ready = 0 } = request;
      if (gram_ready > this.#last && gram_ready <= s) this.#batch.unblock(this.#byName.get(`r${no}`)!.handle);
    }
    this.#last = s;
    this.#open.push(s);
    this.#batch.plan(s);
    const handles = views.list(Word.RowHandleAt, views.word(Word.PlanRows));
    const tokens = views.list(Word.RowTokensAt, handles.length);
    const admitted = views.word(Word.PlanAdmitted);
    const blocks: Record<string, number[]> = {};
    handles.forEach((handle, i) => {
      const live = this.#bySlot.get(handle % SLOTS)!;
      const table = blockTable(views, handle % SLOTS);
      if (i >= admitted) live.shown = 0;
      if (table.length > live.shown) blocks[nameOf(live)] = table.slice(live.shown);
      live.shown = table.length;
    });
    const pre = this.#names(views.list(Word.PreemptedAt, views.word(Word.PlanPreempted)));
    return {
      s,
      n: handles.map((handle, i) => [nameOf(this.#bySlot.get(handle % SLOTS)!), tokens[i]]),
      run: this.#names(views.list(Word.RunningAt, views.word(Word.Running))),
      wait: this.#names(this.#waiting()),
      free: views.word(Word.BlocksFree),
      ...(Object.keys(blocks).length ? { blocks } : {}),
      ...(pre.length ? { pre } : {}),
    };
  }

  #update(): Row {
    const { views } = this.#core;
    const u = this.#open.shift()!;
    const rows = this.#batch.take(u);
    const out: string[] = [];
    const fin: string[][] = [];
    for (let row = 0; row < rows; row++) {
      const [slot, , , flags] = views.out.subarray(row * OUT_WORDS, (row + 1) * OUT_WORDS) as unknown as number[];
      const live = this.#bySlot.get(slot!)!;
      out.push(nameOf(live));
      const reason = (flags! & OUT_REASON) - 1;
      if (reason >= 0) fin.push([nameOf(live), REASONS[reason]!]);
      else if (flags! & OUT_FEED) {
        this.#batch.feed(live.handle, outputs(live.request, live.fed, FEED_HALF));
        live.fed += FEED_HALF;
      }
    }
    const totals = this.#prefixTotals();
    const prefix = totals.map((total, i) => total - this.#totals[i]!);
    this.#totals = totals;
    const deferred = views.word(Word.Deferred);
    const free = freeQueue(views);
    const stats = [views.word(Word.Running), views.word(Word.Waiting) - deferred, deferred, ...prefix];
    return {
      u,
      out,
      fin,
      stats,
      free: views.word(Word.BlocksFree),
      head: free.slice(0, 5),
      tail: free.slice(-3),
    };
  }

  #abort(name: string): Row {
    const live = this.#byName.get(name);
    if (live && this.#batch.close(live.handle, Reason.Abort, 0, this.#last)) this.#batch.flush();
    return { abort: name };
  }

  /** Returns the slots in the order in which the queue would return them. */
  #waiting(): number[] {
    const { views } = this.#core;
    if (this.#scenario.config.policy === "priority") {
      const arrival = new Float64Array(views.words.buffer, views.word(Word.ArrivalAt) >>> 0, SLOTS);
      const priority = (slot: number) => this.#bySlot.get(slot)!.request.prio ?? 0;
      return views
        .list(Word.HeapAt, views.word(Word.Waiting))
        .sort((a, b) => priority(a) - priority(b) || arrival[a]! - arrival[b]!);
    }
    const next = (views.word(Word.WaitNextAt) >>> 0) >> 2;
    const slots: number[] = [];
    for (let at = views.word(Word.WaitHead); at !== 0; at = views.i32[next + at - 1]!) slots.push(at - 1);
    return slots;
  }

  #names(handles: number[]): string[] {
    return handles.map((handle) => nameOf(this.#bySlot.get(handle % SLOTS)!));
  }

  #prefixTotals(): number[] {
    const first = [Total.PrefixRequests, Total.PrefixQueries, Total.PrefixHits];
    const again = [Total.PreemptedRequests, Total.PreemptedQueries, Total.PreemptedHits];
    return [...first, ...again].map((total) => this.#core.total(total));
  }
}

const nameOf = (live: Live) => `r${live.request.no}`;

/** Returns `count` output ids from position `from` (from 0). */
function outputs({ no, eos_at }: LogRequest, from: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (eos_at === from + i + 1 ? EOS : 20_000_000 + no * 10_000 + from + i));
}
