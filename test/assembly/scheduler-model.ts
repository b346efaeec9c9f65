/**
 * Model of the scheduler: the rules of vLLM 0.33, simple and slow. Queues are arrays, blocks are objects, and a block's
 * content is a text. Written from the rules, not from `assembly/`. The tests run core and model side by side.
 */
import { Pause, Reason, Status, Total } from "../../assembly/layout.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import type { Output, PlanResult, PlanRow, Request, Spec, TakeResult } from "./model-types.ts";
import { Pool } from "./pool-model.ts";

export class SchedulerModel {
  readonly pool: Pool;
  readonly totals: number[] = new Array<number>(Total.Count).fill(0);
  readonly requests = new Map<number, Request>();
  running: Request[] = [];
  waiting: Request[] = [];
  #paused: Pause = Pause.Unpaused;
  #steps: PlanRow[][] = [];
  #closing: Request[] = [];
  #ended: number[] = [];
  #executed = 0;
  #lastPrefill: number;
  #capacityBound = false;
  #preempted: number[] = [];

  constructor(
    readonly config: EngineConfig,
    readonly eosId: number,
  ) {
    this.pool = new Pool(config.numGpuBlocks, config.blockSize, config.enablePrefixCaching);
    this.#lastPrefill = -config.vllm.prefillScheduleInterval;
  }

  get open(): number {
    return this.#steps.length;
  }
  get hasWork(): boolean {
    let unfinished = 0;
    if (this.#paused !== Pause.PausedAll) unfinished += this.running.length;
    if (this.#paused === Pause.Unpaused) unfinished += this.waiting.length;
    return unfinished + this.#ended.length + this.#closing.length > 0;
  }

  add(spec: Spec): void {
    const request: Request = {
      spec,
      tokens: [...spec.prompt],
      outputs: 0,
      status: Status.Waiting,
      computed: 0,
      expected: 0,
      inFlight: 0,
      stale: 0,
      drop: false,
      chunk: false,
      preemptions: 0,
      preemptionsTold: 0,
      closed: false,
      deferred: spec.blocked,
      blocked: spec.blocked,
      table: [],
      contents: [],
      entered: 0,
      hit: 0,
    };
    this.#extendContents(request);
    this.requests.set(spec.no, request);
    this.waiting.push(request);
    this.#order();
    this.#count(Total.Submitted);
  }

  close(no: number, reason: Reason): boolean {
    const request = this.requests.get(no);
    if (!request || request.closed) return false;
    request.closed = true;
    this.#closing.push(request);
    this.#count(Total.FinishedStop + reason);
    return true;
  }

  flush(): void {
    for (const request of this.#closing) this.#remove(request);
    this.#closing = [];
  }

  unblock(no: number): boolean {
    const request = this.requests.get(no);
    if (request) request.blocked = false;
    return request !== undefined;
  }

  pause(state: Pause): void {
    this.#paused = state;
  }

  reset(force: boolean): { done: boolean; preempted: number[] } {
    this.#preempted = [];
    while (force && this.running.length) this.#preempt(this.running.at(-1)!, true);
    const done = this.pool.reset();
    if (done) this.#count(Total.PrefixResets);
    return { done, preempted: this.#preempted };
  }

  plan(): PlanResult {
    const { config } = this;
    this.#count(Total.Steps);
    this.#preempted = [];
    const ended = this.#ended;
    this.#ended = [];
    const candidates = this.running.length + this.waiting.length;
    let threshold = candidates > 1 ? config.vllm.longPrefillTokenThreshold : 0;
    if (threshold && config.vllm.longPrefillTokenThresholdAdaptive) {
      threshold = Math.max(threshold, Math.floor(config.maxNumBatchedTokens / candidates));
    }
    const interval = config.vllm.prefillScheduleInterval;
    const defer =
      interval > 1 &&
      !this.#capacityBound &&
      this.#executed + 1 - this.#lastPrefill < interval &&
      this.running.some((request) => !request.chunk);
    const step = new Step(threshold, defer, this.#paused === Pause.PausedAll ? 0 : config.maxNumScheduledTokens);
    this.#planRunning(step);
    const admitted = step.rows.size;
    if (!this.#preempted.length && this.#paused !== Pause.PausedAll) {
      if (this.#paused === Pause.Unpaused) this.#admit(step);
      if (!defer) this.#capacityBound = this.waiting.length > this.waiting.filter(({ deferred }) => deferred).length;
    }
    if (step.rows.size) this.#executed++;
    if (interval > 1 && step.prefill) this.#lastPrefill = this.#executed;
    const rows = [...step.rows].map(([request, [tokens, newBlocks]]) => {
      request.computed += tokens;
      request.inFlight += tokens;
      request.chunk = request.computed < request.tokens.length + request.expected;
      if (!request.chunk && config.asyncScheduling) request.expected++;
      const { computed, chunk } = request;
      return { no: request.spec.no, tokens, computed, samples: !chunk, newBlocks };
    });
    this.#steps.push(rows);
    return { rows, admitted, preempted: this.#preempted, undone: step.undone, refused: step.refused, ended };
  }

  #planRunning(step: Step): void {
    const { config, pool } = this;
    const fcfs = config.schedulingPolicy === "fcfs";
    for (let i = 0; i < this.running.length && step.budget > 0; ) {
      const request = this.running[i]!;
      const { expected, computed, spec } = request;
      const lastInFlight = expected > 0 && computed + 2 - expected >= spec.prompt.length + spec.maxTokens;
      let n = request.tokens.length + expected - computed;
      if (step.threshold) n = Math.min(n, step.threshold);
      n = Math.min(n, step.budget, config.maxModelLen - computed - 1);
      if (lastInFlight || (step.defer && request.chunk) || n <= 0) {
        i++;
        continue;
      }
      const blocks = () =>
        Math.max(pool.blocksFor(Math.min(computed + n, config.maxModelLen)) - request.table.length, 0);
      while (blocks() > pool.free.length && request.status === Status.Running) {
        step.refused.push(spec.no);
        const victim = fcfs ? this.running.at(-1)! : worst(this.running);
        const at = this.running.indexOf(victim);
        if (at < i) i--;
        const taken = step.rows.get(victim);
        if (taken) {
          step.rows.delete(victim);
          step.budget += taken[0];
          step.undone.push(victim.spec.no);
        }
        this.#preempt(victim, false);
      }
      if (request.status !== Status.Running) {
        if (fcfs) break;
        continue;
      }
      const newBlocks = blocks();
      request.table.push(...pool.take(newBlocks));
      this.#enter(request, Math.min(computed + n, request.tokens.length));
      step.prefill ||= request.chunk;
      step.rows.set(request, [n, newBlocks]);
      step.budget -= n;
      i++;
    }
  }

  #admit(step: Step): void {
    const { config, pool } = this;
    const adapters = new Set(this.running.map(({ spec }) => spec.adapter).filter(Boolean));
    for (const request of [...this.waiting]) {
      if (step.budget <= 0 || this.running.length >= config.maxNumActiveSeqs) return;
      const { spec, tokens } = request;
      const { maxLoras } = config;
      const noRoom = spec.adapter > 0 && maxLoras > 0 && adapters.size === maxLoras && !adapters.has(spec.adapter);
      if (request.blocked || (request.stale > 0 && !request.drop) || noRoom) {
        request.deferred = true;
        continue;
      }
      const reads = config.enablePrefixCaching && !spec.skip;
      const most = Math.floor((tokens.length - 1) / config.blockSize);
      const hits = reads ? pool.lookUp(request.contents.slice(0, most)) : [];
      const hit = hits.length * config.blockSize;
      if (!request.preemptions) request.hit = hit;
      if (step.defer && hit < tokens.length - 1) return;
      let n = tokens.length - hit;
      if (step.threshold) n = Math.min(n, step.threshold);
      if (!config.enableChunkedPrefill && n > step.budget) return;
      n = Math.min(n, step.budget);
      const mark = this.running.length ? Math.trunc(config.vllm.watermark * config.numGpuBlocks) : 0;
      const room = pool.free.length - mark - hits.filter(({ refs }) => refs === 0).length;
      const blocksFor = (count: number) => pool.blocksFor(Math.min(count, config.maxModelLen)) - hits.length;
      const newBlocks = Math.max(blocksFor(hit + n), 0);
      if (newBlocks > room || (config.vllm.schedulerReserveFullIsl && blocksFor(tokens.length) > room)) {
        step.refused.push(spec.no);
        return;
      }
      if (reads) {
        const again = request.preemptions > 0;
        this.#count(again ? Total.PreemptedRequests : Total.PrefixRequests);
        this.#count(again ? Total.PreemptedQueries : Total.PrefixQueries, tokens.length);
        this.#count(again ? Total.PreemptedHits : Total.PrefixHits, hit);
      }
      pool.touch(hits);
      request.table = [...hits, ...pool.take(newBlocks)];
      request.entered = hits.length;
      this.#enter(request, hit + n);
      this.waiting.splice(this.waiting.indexOf(request), 1);
      this.running.push(request);
      Object.assign(request, { status: Status.Running, deferred: false, computed: hit });
      if (spec.adapter) adapters.add(spec.adapter);
      step.rows.set(request, [n, newBlocks]);
      step.budget -= n;
      step.prefill ||= hit < tokens.length - 1;
    }
  }

  take(): TakeResult {
    this.flush();
    const out: Output[] = [];
    const lost: number[] = [];
    for (const { no, tokens, samples } of this.#steps.shift()!) {
      const request = this.requests.get(no);
      if (!request) {
        if (samples) lost.push(no);
        continue;
      }
      request.inFlight -= tokens;
      const stale = request.stale > 0;
      if (stale) request.stale -= tokens;
      if (!samples) continue;
      if (stale && request.drop) {
        lost.push(no);
        continue;
      }
      out.push(this.#append(request, stale));
      // Removes the request at once, so that the next row sees its blocks free.
      if (out.at(-1)!.reason !== null) this.#remove(request);
    }
    this.#count(Total.GenerationTokens, out.length);
    return { out, lost };
  }

  /** Appends one sampled token. */
  #append(request: Request, stale: boolean): Output {
    const { spec, tokens } = request;
    const token = spec.outputAt(request.outputs);
    tokens.push(token);
    request.outputs++;
    this.#extendContents(request);
    const byStopId = token !== this.eosId && spec.stopIds.includes(token);
    const full = request.outputs >= spec.maxTokens || tokens.length >= this.config.maxModelLen;
    const reason = token === this.eosId || byStopId ? Reason.Stop : full ? Reason.Length : null;
    if (request.expected > 0 && !stale) {
      request.expected--;
      if (request.status === Status.Running) this.#enter(request, request.computed - request.inFlight);
    }
    let first: [number, number] | null = null;
    if (request.outputs === 1) {
      const written = Math.min(request.entered * this.config.blockSize, spec.prompt.length);
      first = [request.hit, Math.max(0, written - request.hit)];
      this.#count(Total.PromptTokens, spec.prompt.length);
      this.#count(Total.PromptTokensCached, request.hit);
    }
    this.#count(Total.PreemptionsReported, request.preemptions - request.preemptionsTold);
    request.preemptionsTold = request.preemptions;
    if (reason !== null) this.#count(Total.FinishedStop + reason);
    return { no: spec.no, token, reason, byStopId, first };
  }

  #preempt(request: Request, drop: boolean): void {
    this.running.splice(this.running.indexOf(request), 1);
    this.#free(request);
    request.drop = drop || (request.drop && request.stale > 0);
    Object.assign(request, { status: Status.Preempted, computed: 0, expected: 0, stale: request.inFlight });
    request.preemptions++;
    this.#count(Total.Preemptions);
    this.#preempted.push(request.spec.no);
    this.waiting.unshift(request);
    this.#order();
  }

  #remove(request: Request): void {
    this.#free(request);
    for (const list of [this.running, this.waiting]) if (list.includes(request)) list.splice(list.indexOf(request), 1);
    this.requests.delete(request.spec.no);
    this.#ended.push(request.spec.no);
  }

  #free(request: Request): void {
    this.pool.release(request.table);
    request.table = [];
    request.entered = 0;
  }

  /** Enters the blocks that are full up to `tokens` in the prefix cache. */
  #enter(request: Request, tokens: number): void {
    if (!this.config.enablePrefixCaching) return;
    const full = Math.min(Math.floor(tokens / this.config.blockSize), request.contents.length);
    for (; request.entered < full; request.entered++) {
      this.pool.enter(request.table[request.entered]!, request.contents[request.entered]!);
    }
  }

  /** A block's content is the text up to its end, with salt and adapter. */
  #extendContents({ contents, tokens, spec }: Request): void {
    const { blockSize } = this.config;
    while ((contents.length + 1) * blockSize <= tokens.length) {
      const own = tokens.slice(contents.length * blockSize, (contents.length + 1) * blockSize);
      contents.push(`${contents.at(-1) ?? `${spec.adapter};${spec.salt}`};${own}`);
    }
  }

  #order(): void {
    if (this.config.schedulingPolicy !== "priority") return;
    this.waiting.sort(
      ({ spec: a }, { spec: b }) => a.priority - b.priority || a.arrivalUs - b.arrivalUs || a.no - b.no,
    );
  }

  #count(total: number, by = 1): void {
    this.totals[total]! += by;
  }
}

/** A step while it is being planned. */
class Step {
  readonly rows = new Map<Request, [tokens: number, newBlocks: number]>();
  readonly undone: number[] = [];
  readonly refused: number[] = [];
  prefill = false;

  constructor(
    readonly threshold: number,
    readonly defer: boolean,
    public budget: number,
  ) {}
}

/** Returns the first request of those with the largest (priority, arrival). */
function worst(running: readonly Request[]): Request {
  return running.reduce((a, b) => {
    const later = b.spec.priority - a.spec.priority || b.spec.arrivalUs - a.spec.arrivalUs;
    return later > 0 ? b : a;
  });
}
