/** Executes a model's requests: the scheduler assigns batches to instances, and the behaviour computes them. */
import type { BatchResults, Behaviour, ModelHost, ModelResponse } from "../behaviours/behaviour.ts";
import { instancesOf, isDecoupled } from "../model-config/model-config.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { ResponseOrders } from "../scheduling/ordered.ts";
import type { LimitedModel } from "../scheduling/rate-limiter.ts";
import type { BatchRow, PlacedBatch, Scheduler } from "../scheduling/scheduler.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import { insertAnswer, requestedPart } from "./cached.ts";
import { computeTimesOf, type Execution, grant, type Instance, miscounted, raised, spansOf } from "./execution.ts";
import { AnswerFit, awaitedResults, incomplete, inferencesIn, isIn } from "./fitting.ts";
import type { ImplicitStates } from "./implicit-state.ts";
import { LoadedVersion } from "./loaded-version.ts";
import type { ModelReporter } from "./reporter.ts";
import type { InferAnswer, InferRequest } from "./request.ts";
import { RequestView } from "./request-view.ts";
import { sequenceInputs } from "./sequence-inputs.ts";
import type { SharedParts, VersionParts } from "./served.ts";

/** Time that the real server waits for a dead process, for each batch. */
const DEAD_US = 1_000_000;

export interface RunnerOptions extends VersionParts {
  readonly behaviour: Behaviour;
  /** Counters of the instances on each GPU. */
  readonly onGpus: ReadonlyMap<number, ModelReporter>;
  readonly scheduler: Scheduler<InferRequest>;
  /** Null: instances do not wait for resources. */
  readonly limited: LimitedModel | null;
  /** File that errors of Python models name as their place. */
  readonly file: string;
  /** Returns the host of an instance. `gpu`: null on the CPU. `dies`: called if the model kills its instance. */
  readonly host: (dies: () => void, gpu: number | null) => ModelHost;
  readonly shared: SharedParts;
  /** Implicit state of sequences, or null if the model has none. */
  readonly states: ImplicitStates | null;
}

export class Runner extends LoadedVersion {
  readonly #fit: AnswerFit;
  readonly #instances: readonly Instance[];
  readonly #idle: Instance[];
  readonly #keys = new Map<InferRequest, string>();
  /** Executions by request, for behaviours that count at the end. */
  readonly #began = new Map<InferRequest, Execution>();
  readonly #orders: ResponseOrders<InferRequest>;
  #pumping = false;
  /** Time of the last call of `#pump` for which the scheduler's orders have not run yet. Null: there is none. */
  #againUs: number | null = null;
  #unwake: (() => void) | null = null;

  constructor(private readonly options: RunnerOptions) {
    super(options, options.shared);
    const { config, statistics, onGpus, host } = options;
    this.#fit = new AnswerFit(config, options.states);
    this.#instances = instancesOf(config).map(({ name, group, device }) => {
      const gpu = group.kind === "KIND_GPU" ? device : null;
      const reporter = (gpu !== null && onGpus.get(gpu)) || statistics.reporter;
      const dies = () => (instance.dead = true);
      const instance: Instance = { name, gpu, reporter, dead: false, freed: null, host: host(dies, gpu) };
      return instance;
    });
    this.#idle = [...this.#instances];
    this.#orders = new ResponseOrders(config, this.#instances.length);
  }

  get dead(): boolean {
    return this.#instances.some(({ dead }) => dead);
  }

  unloaded(): void {
    this.options.limited?.end();
  }

  protected accept(request: InferRequest, key: string | null, nowUs: number): void {
    const { scheduler } = this.options;
    if (!scheduler.enqueue(request, nowUs))
      throw new TritonError("UNAVAILABLE", `${request.logged}Exceeds maximum queue size`);
    if (key !== null) this.#keys.set(request, key);
    if (this.#orders.any && !this.config.sequence_batching) this.#orders.enter(request, 0);
    this.statistics.reporter.pending++;
    this.live++;
    this.#pump(nowUs);
  }

  /** Executes a batch on an instance without the scheduler. Submit nothing else until it resolves. */
  warmUp(at: number, batch: readonly InferRequest[]): Promise<void> {
    const instance = this.#instances[at]!;
    const nowUs = this.shared.clock.now();
    for (const request of batch) Object.assign(request, { startUs: nowUs, queuedUs: nowUs });
    this.statistics.reporter.pending += batch.length;
    this.live += batch.length;
    return new Promise((resolve) => {
      instance.freed = resolve;
      this.#execute(instance, batch, null);
    });
  }

  /** Runs the scheduler's orders. A nested call makes the outer loop run again. */
  #pump(fromUs = this.shared.clock.now()): void {
    this.#againUs = fromUs;
    if (this.#pumping) return;
    this.#pumping = true;
    const { scheduler } = this.options;
    while (this.#againUs !== null) {
      const nowUs: number = this.#againUs;
      this.#againUs = null;
      this.#unwake?.();
      const { run, placed, rejected, cancelled, wakeUs } = scheduler.orders(nowUs);
      this.#unwake = wakeUs === null ? null : this.shared.clock.at(wakeUs, this.#woken);
      for (const request of rejected)
        this.#refuse(request, "REJECTED", new TritonError("UNAVAILABLE", "Request timeout expired"));
      for (const request of cancelled)
        this.#refuse(request, "CANCELED", new TritonError("CANCELLED", "Request cancelled"));
      for (const batch of run) this.#begin(batch);
      if (placed !== undefined) for (const placedBatch of placed) this.#place(placedBatch);
    }
    this.#pumping = false;
  }

  readonly #woken = (): void => this.#pump();

  #begin(batch: readonly InferRequest[]): void {
    const { limited } = this.options;
    if (limited === null) this.#execute(this.#idle.pop()!, batch, null);
    else this.#beginGranted(limited, batch);
  }

  #beginGranted(limited: LimitedModel, batch: readonly InferRequest[]): void {
    const begin = (at: number) => {
      this.options.scheduler.began?.(batch);
      this.#execute(this.#instances[at]!, batch, null);
      this.#pump();
    };
    grant(limited.ask(begin, null));
  }

  #place({ instance, rows }: PlacedBatch<InferRequest>): void {
    const { limited } = this.options;
    const batch = rows.filter(({ ready }) => ready).map(({ request }) => request);
    if (this.#orders.any) for (const request of batch) this.#orders.enter(request, instance);
    const execute = () => this.#execute(this.#instances[instance]!, batch, rows);
    if (limited === null) execute();
    else grant(limited.ask(execute, instance));
  }

  #refuse(request: InferRequest, reason: "REJECTED" | "CANCELED", error: TritonError): void {
    this.statistics.reporter.pending--;
    this.statistics.failed(reason, this.shared.clock.now() - request.startUs);
    this.#last(request, error);
  }

  /** Executes a batch. `placed`: the batch by sequence slot, or null if it has no slots. */
  #execute(instance: Instance, given: readonly InferRequest[], placed: readonly BatchRow<InferRequest>[] | null): void {
    const startUs = this.shared.clock.now();
    this.statistics.reporter.pending -= given.length;
    const batch = this.#readableRequests(instance, given);
    if (batch.length === 0 || instance.dead) {
      if (instance.dead) this.#failDead(instance, batch);
      else this.#free(instance);
      return;
    }
    const { behaviour } = this.options;
    const late = behaviour.countsAtEnd === true;
    const rows = placed === null || batch === given ? placed : placed.filter((row) => isIn(batch, row));
    const requests = this.#views(batch, rows, instance);
    const run: Execution = { instance, batch, rows, startUs, inferFromUs: this.shared.clock.now() };
    if (late) for (const request of batch) this.#began.set(request, run);
    else if (instance.gpu !== null) this.shared.gpus.began(instance.gpu, run.inferFromUs);
    try {
      const made = behaviour.execute(requests, instance.host);
      if (late) this.#free(instance);
      else if (made instanceof Promise) {
        made.then(this.#ended.bind(this, run)).catch(this.#raised.bind(this, run));
      } else this.#ended(run, made);
    } catch (error) {
      this.#raised(run, error);
    }
  }

  /** Returns the behaviour's views of the requests: one per row, or without rows one per request. */
  #views(
    batch: readonly InferRequest[],
    rows: readonly BatchRow<InferRequest>[] | null,
    instance: Instance,
  ): readonly RequestView[] {
    const views: RequestView[] = [];
    if (rows === null)
      for (const request of batch) views.push(new RequestView(request, true, request.inputs, this.#respond));
    else
      for (const row of rows)
        views.push(new RequestView(row.request, row.ready, this.#inputs(row, instance), this.#respond));
    return views;
  }

  #inputs(row: BatchRow<InferRequest>, instance: Instance): ReadonlyMap<string, Tensor> {
    const inputs = sequenceInputs(this.config, row);
    return this.options.states?.addTo(inputs, this.#instances.indexOf(instance), row) ?? inputs;
  }

  /** Returns the requests that the backend can read. Answers the others with an error. */
  #readableRequests({ reporter }: Instance, given: readonly InferRequest[]): readonly InferRequest[] {
    let sound: InferRequest[] | null = null;
    for (let at = 0; at < given.length; at++) {
      const request = given[at]!;
      if (!this.#readable(request, reporter)) sound ??= given.slice(0, at);
      else sound?.push(request);
    }
    return sound ?? given;
  }

  /** Reports whether all strings are complete. As in Triton, the backend checks this, not the core. */
  #readable(request: InferRequest, reporter: ModelReporter): boolean {
    let wrong: string | undefined;
    for (const input of request.fields.inputs) wrong ??= incomplete(input);
    if (wrong === undefined) return true;
    this.#failed(request, reporter, this.shared.clock.now());
    this.#last(request, invalidArg(wrong));
    return false;
  }

  /** Ends an execution. Sends the results, unless the behaviour sends them itself. */
  #ended(run: Execution, made: BatchResults): void {
    const { instance, batch, rows, startUs } = run;
    const sends = this.options.behaviour.sends === true || isDecoupled(this.config);
    const results = sends ? null : awaitedResults(rows, made);
    if (instance.dead) {
      this.#computed(instance);
      this.#failDead(instance, batch);
      return;
    }
    const inferToUs = this.shared.clock.now();
    if (results !== null && !Array.isArray(results)) {
      this.#raised(run, new Error("it gave no list of responses"));
      return;
    }
    if (results !== null && results.length !== batch.length) {
      this.#failedBatch(run, miscounted(batch.length, results.length));
      return;
    }
    const answers = results === null ? null : this.#fit.allChecked(batch, results);
    const nowUs = answers === null ? inferToUs : this.shared.clock.now();
    const times = computeTimesOf(run, inferToUs, nowUs);
    this.#computed(instance);
    this.statistics.executed(inferencesIn(batch), times, instance.reporter);
    let endUs = nowUs;
    for (let at = 0; at < batch.length; at++) {
      const request = batch[at]!;
      const answer = answers?.[at];
      const key = this.#keys.size === 0 ? undefined : this.#keys.get(request);
      endUs = this.shared.clock.now();
      const cacheUs =
        key === undefined || answer === undefined ? null : insertAnswer(key, answer, request, this.shared);
      const spans = spansOf(request, startUs, times, endUs, cacheUs ?? 0);
      this.statistics.succeeded(request.batchSize, spans, nowUs, this.shared.epochMs(endUs), instance.reporter);
      if (cacheUs !== null) this.statistics.missed(cacheUs, nowUs);
      request.reported?.(times);
    }
    if (answers !== null) for (let at = 0; at < batch.length; at++) this.#last(batch[at]!, answers[at]!, endUs);
    this.#free(instance, endUs);
  }

  #raised(run: Execution, error: unknown): void {
    this.#failedBatch(run, raised(error, this.config.backend === "python" ? this.options.file : null));
  }

  #failedBatch(run: Execution, message: string): void {
    const { instance, batch } = run;
    const nowUs = this.shared.clock.now();
    const of = `${this.shared.facts.instanceWord} '${instance.name}'`;
    const failure = internal(`Failed to process the request(s) for ${of}, message: ${message}`);
    this.#computed(instance);
    this.statistics.executed(inferencesIn(batch), computeTimesOf(run, nowUs, nowUs), instance.reporter);
    for (const request of batch) {
      this.#failed(request, instance.reporter, nowUs);
      if (this.#keys.has(request)) this.statistics.missed(request.cacheUs, nowUs);
      this.#last(request, failure);
    }
    this.#free(instance);
  }

  /** Fails the batch of a dead instance, which executes nothing. */
  #failDead(instance: Instance, batch: readonly InferRequest[]): void {
    this.shared.clock.at(this.shared.clock.now() + DEAD_US, () => {
      for (const request of batch) {
        this.#failed(request, instance.reporter, this.shared.clock.now());
        this.#last(request, internal(`Stub process '${instance.name}' is not healthy.`));
      }
      this.#free(instance);
    });
  }

  /** Counts a request that failed in the backend. */
  #failed({ startUs }: InferRequest, reporter: ModelReporter, nowUs: number): void {
    this.statistics.failed("BACKEND", nowUs - startUs, 1, reporter);
  }

  #computed({ gpu }: Instance): void {
    if (gpu !== null) this.shared.gpus.ended(gpu, this.shared.clock.now());
  }

  /** `nowUs`: the time, if the caller has read it already. */
  #free(instance: Instance, nowUs = this.shared.clock.now()): void {
    const { freed } = instance;
    if (freed !== null) {
      instance.freed = null;
      freed();
      return;
    }
    const { scheduler, limited } = this.options;
    const at = this.#instances.indexOf(instance);
    if (limited !== null) grant(limited.released(at));
    else if (!this.config.sequence_batching) this.#idle.push(instance);
    scheduler.freed(at);
    this.#pump(nowUs);
  }

  readonly #respond = (request: InferRequest, response: ModelResponse | null, final: boolean): void => {
    const answer = response === null ? null : this.#fit.checked(request, response);
    if (final && response?.uncounted !== true) this.#countAtEnd(request, answer);
    if (final) this.#last(request, answer);
    else this.#sendInOrder(request, answer, false);
  };

  /** Counts a request when it has ended, as a batch of one. */
  #countAtEnd(request: InferRequest, answer: InferAnswer | TritonError | null): void {
    const run = this.#began.get(request);
    if (run === undefined) return;
    const nowUs = this.shared.clock.now();
    const times = computeTimesOf(run, nowUs, nowUs);
    const spans = spansOf(request, run.startUs, times, nowUs, 0);
    const { reporter } = run.instance;
    this.statistics.executed(1, times, reporter);
    if (answer instanceof TritonError || request.broken) this.#failed(request, reporter, nowUs);
    else this.statistics.succeeded(request.batchSize, spans, nowUs, this.shared.epochMs(nowUs), reporter);
    request.reported?.(times);
  }

  /** Sends the last response. `nowUs`: the time, if the caller has read it already. */
  #last(request: InferRequest, answer: InferAnswer | TritonError | null, nowUs?: number): void {
    this.live--;
    if (this.#began.size > 0) this.#began.delete(request);
    if (this.#keys.size > 0) this.#keys.delete(request);
    this.options.states?.over(request);
    this.#sendInOrder(request, answer, true, nowUs);
    const { scheduler } = this.options;
    if (scheduler.completed === undefined) return;
    scheduler.completed(request, this.shared.clock.now());
    this.#pump();
  }

  #sendInOrder(request: InferRequest, answer: InferAnswer | TritonError | null, final: boolean, nowUs?: number): void {
    const order = this.#orders.orderFor(request, final);
    if (order === undefined) this.#sendNow(request, answer, final, nowUs);
    else order.send(request, this.#sendNow.bind(this, request, answer, final), final);
  }

  #sendNow(request: InferRequest, answer: InferAnswer | TritonError | null, final: boolean, nowUs?: number): void {
    this.send(request, answer && requestedPart(request, answer), final, nowUs);
  }
}
