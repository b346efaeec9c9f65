/**
 * How are requests to a model executed? Its scheduler says which batch goes to which instance when; an instance has the
 * behaviour compute it, and what comes back is answered and counted as Triton's Python backend does: when `execute` returns.
 */
import type {
  Behaviour,
  ModelHost,
  ModelRequest,
  ModelResponse,
  ModelResults,
  PlainText,
} from "../behaviours/behaviour.ts";
import { instancesOf, isDecoupled, type ModelConfig } from "../config/model-config.ts";
import { internal, invalidArg, TritonError } from "../config/status.ts";
import type { Granted, LimitedModel } from "../scheduling/rate-limiter.ts";
import type { BatchRow, Scheduler } from "../scheduling/scheduler.ts";
import { ELEMENT_BYTES, elementCount, isDatatype, type Tensor } from "../tensors/datatypes.ts";
import { HIT, keep, lookUp, wanted } from "./cached.ts";
import { OrderedResponses } from "./ordered.ts";
import type { InferAnswer, InferRequest } from "./request.ts";
import { sequenceInputs } from "./sequence-inputs.ts";
import { passOn, type Served, type Shared } from "./served.ts";
import type { ModelStatistics } from "./statistics.ts";

/** What the real server waits for a process that has died, each time. */
const DEAD_US = 1_000_000;

interface Instance {
  readonly name: string;
  readonly host: ModelHost;
  dead: boolean;
}

export interface RunnerOptions {
  readonly config: ModelConfig;
  readonly version: number;
  readonly behaviour: Behaviour;
  readonly statistics: ModelStatistics;
  readonly scheduler: Scheduler<InferRequest>;
  /** null: instances wait for no resources. */
  readonly limited: LimitedModel | null;
  /** Stands in what a Python model raised as the place where. */
  readonly file: string;
  /** `dies` is called where a model ends its instance. */
  readonly host: (dies: () => void) => ModelHost;
  readonly shared: Shared;
}

export class Runner implements Served {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  readonly statistics: ModelStatistics;
  live = 0;
  readonly #options: RunnerOptions;
  readonly #shared: Shared;
  readonly #instances: readonly Instance[];
  readonly #idle: Instance[];
  readonly #keys = new Map<InferRequest, string>();
  /** When each began, of a behaviour that counts at the end. */
  readonly #began = new Map<InferRequest, number>();
  /** null: responses leave as they come. */
  readonly #ordered: OrderedResponses<InferRequest> | null;
  #pumping = false;
  #again = false;
  #unwake: (() => void) | null = null;

  constructor(options: RunnerOptions) {
    const { config, version, statistics, host, shared } = options;
    this.name = config.name;
    this.version = version;
    this.config = config;
    this.statistics = statistics;
    this.#options = options;
    this.#shared = shared;
    this.#instances = instancesOf(config).map(({ name }) => {
      const instance: Instance = { name, dead: false, host: host(() => (instance.dead = true)) };
      return instance;
    });
    this.#idle = [...this.#instances];
    this.#ordered = config.dynamic_batching?.preserve_ordering ? new OrderedResponses() : null;
  }

  get dead(): boolean {
    return this.#instances.some(({ dead }) => dead);
  }

  unloaded(): void {
    this.#options.limited?.end();
  }

  submit(request: InferRequest): void {
    const { scheduler } = this.#options;
    const nowUs = this.#shared.clock.now();
    request.startUs ||= nowUs;
    request.queuedUs = nowUs;
    const key = lookUp(this, request, this.#shared);
    if (key === HIT) return;
    if (!scheduler.enqueue(request, nowUs))
      throw new TritonError("UNAVAILABLE", `${request.logged}Exceeds maximum queue size`);
    if (key !== null) this.#keys.set(request, key);
    this.#ordered?.enter(request);
    this.statistics.pending++;
    this.live++;
    this.#pump();
  }

  /** Has the scheduler say what is to be done now. What is done at once may come here again. */
  #pump(): void {
    this.#again = true;
    if (this.#pumping) return;
    this.#pumping = true;
    const { scheduler, limited } = this.#options;
    while (this.#again) {
      this.#again = false;
      this.#unwake?.();
      const { run, placed, rejected, cancelled, wakeUs } = scheduler.orders(this.#shared.clock.now());
      this.#unwake = wakeUs === null ? null : this.#shared.clock.at(wakeUs, () => this.#pump());
      for (const request of rejected)
        this.#refuse(request, "REJECTED", new TritonError("UNAVAILABLE", "Request timeout expired"));
      for (const request of cancelled)
        this.#refuse(request, "CANCELED", new TritonError("CANCELLED", "Request cancelled"));
      for (const batch of run) this.#begin(batch);
      for (const { instance, rows } of placed ?? [])
        if (limited === null) this.#execute(this.#instances[instance]!, rows);
        else grant(limited.ask(() => this.#execute(this.#instances[instance]!, rows), instance));
    }
    this.#pumping = false;
  }

  #begin(batch: readonly InferRequest[]): void {
    const { limited } = this.#options;
    if (limited === null) this.#beginOn(this.#idle.pop()!, batch);
    else grant(limited.ask((at) => this.#beginOn(this.#instances[at]!, batch), null));
  }

  #beginOn(instance: Instance, batch: readonly InferRequest[]): void {
    this.#options.scheduler.began?.(batch);
    const rows: BatchRow<InferRequest>[] = [];
    for (const request of batch) rows.push({ request, slot: 0, ready: true });
    this.#execute(instance, rows);
  }

  #refuse(request: InferRequest, reason: "REJECTED" | "CANCELED", error: TritonError): void {
    this.statistics.pending--;
    this.statistics.failed(reason, this.#shared.clock.now() - request.startUs);
    this.#last(request, error);
  }

  #execute(instance: Instance, given: readonly BatchRow<InferRequest>[]): void {
    const startUs = this.#shared.clock.now();
    const rows: BatchRow<InferRequest>[] = [];
    const batch: InferRequest[] = [];
    for (const row of given) {
      if (row.ready) this.statistics.pending--;
      if (row.ready && !this.#readable(row.request)) continue;
      rows.push(row);
      if (row.ready) batch.push(row.request);
    }
    if (batch.length === 0 || instance.dead) {
      if (instance.dead) this.#bury(instance, batch);
      else this.#free(instance);
      return;
    }
    const { behaviour } = this.#options;
    const late = behaviour.countsAtEnd === true;
    const sends = late || behaviour.sends === true || isDecoupled(this.config);
    if (late) for (const request of batch) this.#began.set(request, startUs);
    const requests: RequestView[] = [];
    for (const row of rows) requests.push(new RequestView(row, sequenceInputs(this.config, row), this.#send));
    const own = batch.length === rows.length ? null : rows;
    try {
      const made = behaviour.execute(requests, instance.host);
      if (late) this.#free(instance);
      else if (made instanceof Promise)
        void made
          .then((results) => this.#ended(instance, batch, startUs, sends ? null : resultsOf(own, results)))
          .catch((error) => this.#raised(instance, batch, startUs, error));
      else this.#ended(instance, batch, startUs, sends ? null : resultsOf(own, made));
    } catch (error) {
      this.#raised(instance, batch, startUs, error);
    }
  }

  /** Texts whose length points beyond the tensor the backend finds out, not the core. */
  #readable(request: InferRequest): boolean {
    let wrong: string | undefined;
    for (const input of request.inputs.values()) wrong ??= incomplete(input);
    if (wrong === undefined) return true;
    this.statistics.failed("BACKEND", this.#shared.clock.now() - request.startUs);
    this.#last(request, invalidArg(wrong));
    return false;
  }

  #ended(instance: Instance, batch: readonly InferRequest[], startUs: number, results: ModelResults): void {
    if (instance.dead) {
      this.#bury(instance, batch);
      return;
    }
    const nowUs = this.#shared.clock.now();
    if (results !== null && !Array.isArray(results)) {
      this.#raised(instance, batch, startUs, new Error("it gave no list of responses"));
      return;
    }
    const answers = results?.map((one: ModelResponse) => answerOf(one, this.config));
    if (answers && answers.length !== batch.length) {
      const why = `it gave ${answers.length} responses for ${batch.length} requests`;
      this.#raised(instance, batch, startUs, new Error(why));
      return;
    }
    const inferUs = nowUs - startUs;
    this.statistics.executed(sizeOf(batch), inferUs);
    for (let at = 0; at < batch.length; at++) {
      const request = batch[at]!;
      const answer = answers?.[at];
      const key = this.#keys.get(request);
      const cacheUs = key === undefined || answer === undefined ? null : keep(key, answer, request, this.#shared);
      const requestUs = nowUs - request.startUs + (cacheUs ?? 0);
      const spans = { requestUs, queueUs: startUs - request.queuedUs, inputUs: 0, inferUs, outputUs: 0 };
      this.statistics.succeeded(request.batchSize, spans, nowUs, this.#shared.epochMs());
      if (cacheUs !== null) this.statistics.missed(cacheUs, nowUs);
      request.reported?.(0, inferUs, 0);
    }
    if (answers) for (let at = 0; at < batch.length; at++) this.#last(batch[at]!, answers[at]!);
    this.#free(instance);
  }

  #raised(instance: Instance, batch: readonly InferRequest[], startUs: number, error: unknown): void {
    const nowUs = this.#shared.clock.now();
    const { name = "Error", message = String(error) } = error instanceof Error ? error : {};
    const place = this.config.backend === "python" ? `\n\nAt:\n  ${this.#options.file}(1): execute\n` : "";
    const said = internal(
      `Failed to process the request(s) for ${this.#shared.facts.instanceWord} '${instance.name}', message: ${name}: ${message}${place}`,
    );
    this.statistics.executed(sizeOf(batch), nowUs - startUs);
    for (const request of batch) {
      this.statistics.failed("BACKEND", nowUs - request.startUs);
      if (this.#keys.has(request)) this.statistics.missed(request.cacheUs, nowUs);
      this.#last(request, said);
    }
    this.#free(instance);
  }

  /** The instance's process is gone: nothing was executed. */
  #bury(instance: Instance, batch: readonly InferRequest[]): void {
    this.#shared.clock.at(this.#shared.clock.now() + DEAD_US, () => {
      for (const request of batch) {
        this.statistics.failed("BACKEND", this.#shared.clock.now() - request.startUs);
        this.#last(request, internal(`Stub process '${instance.name}' is not healthy.`));
      }
      this.#free(instance);
    });
  }

  #free(instance: Instance): void {
    const { scheduler, limited } = this.#options;
    const at = this.#instances.indexOf(instance);
    if (limited !== null) grant(limited.released(at));
    else if (!this.config.sequence_batching) this.#idle.push(instance);
    scheduler.freed(at);
    this.#pump();
  }

  readonly #send = (request: InferRequest, response: ModelResponse | null, final: boolean): void => {
    const answer = response === null ? null : answerOf(response, this.config);
    if (final && response?.uncounted !== true) this.#countAtEnd(request, answer);
    if (final) this.#last(request, answer);
    else this.#pass(request, answer, false);
  };

  /** Each request by itself, as a batch of one. */
  #countAtEnd(request: InferRequest, answer: InferAnswer | TritonError | null): void {
    const startUs = this.#began.get(request);
    if (startUs === undefined) return;
    const nowUs = this.#shared.clock.now();
    const requestUs = nowUs - request.startUs;
    const inferUs = nowUs - startUs;
    const spans = { requestUs, queueUs: startUs - request.queuedUs, inputUs: 0, inferUs, outputUs: 0 };
    this.statistics.executed(1, inferUs);
    if (answer instanceof TritonError) this.statistics.failed("BACKEND", requestUs);
    else this.statistics.succeeded(request.batchSize, spans, nowUs, this.#shared.epochMs());
    request.reported?.(0, inferUs, 0);
  }

  #last(request: InferRequest, answer: InferAnswer | TritonError | null): void {
    this.live--;
    this.#began.delete(request);
    this.#keys.delete(request);
    this.#pass(request, answer, true);
    const { scheduler } = this.#options;
    if (scheduler.completed === undefined) return;
    scheduler.completed(request, this.#shared.clock.now());
    this.#pump();
  }

  #pass(request: InferRequest, answer: InferAnswer | TritonError | null, final: boolean): void {
    if (this.#ordered === null) this.#passNow(request, answer, final);
    else this.#ordered.send(request, () => this.#passNow(request, answer, final), final);
  }

  #passNow(request: InferRequest, answer: InferAnswer | TritonError | null, final: boolean): void {
    passOn(request, this.statistics, this.#shared.clock.now(), answer && chosen(request, answer), final);
  }
}

const grant = (granted: Granted) => {
  for (const run of granted) run();
};

const sizeOf = (batch: readonly InferRequest[]) => batch.reduce((all, { batchSize }) => all + batchSize, 0);

const chosen = (request: InferRequest, answer: InferAnswer | TritonError) =>
  answer instanceof TritonError ? answer : wanted(request, answer);

/** Nobody waits for what a slot without a request gives; `rows` null: there is none. */
function resultsOf(rows: readonly BatchRow<InferRequest>[] | null, results: ModelResults): ModelResults {
  if (rows === null || !Array.isArray(results) || results.length !== rows.length) return results ?? [];
  return results.filter((_, at) => rows[at]!.ready);
}

/** What a behaviour sees of a request. */
class RequestView implements ModelRequest {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly #request: InferRequest;
  readonly #send: (request: InferRequest, response: ModelResponse | null, final: boolean) => void;
  /** Had its last response; a slot without a request has none. */
  #over: boolean;

  constructor(
    { request, ready }: BatchRow<InferRequest>,
    inputs: ReadonlyMap<string, Tensor>,
    send: (request: InferRequest, response: ModelResponse | null, final: boolean) => void,
  ) {
    this.#request = request;
    this.inputs = inputs;
    this.#send = send;
    this.#over = !ready;
  }

  get id(): string {
    return this.#request.id;
  }
  get parameters(): string {
    return this.#request.parameters;
  }
  get cancelled(): boolean {
    return this.#request.cancelled;
  }
  whenCancelled(act: () => void): void {
    this.#request.whenCancelled(act);
  }
  plainText(output: string): PlainText | null {
    const { fields, receiver, responded } = this.#request;
    return responded && !this.#over && fields.outputs.length === 0 ? (receiver.plainText?.(output) ?? null) : null;
  }

  send(response: ModelResponse | null, final: boolean): void {
    if (this.#over) return;
    this.#over = final;
    this.#send(this.#request, response, final);
  }
}

/** A response of the wrong shape is an error of the model. */
function answerOf(response: ModelResponse, { name }: ModelConfig): InferAnswer | TritonError {
  if (typeof response !== "object" || response === null) return internal(`model '${name}' gave no response`);
  if ("error" in response) return new TritonError(response.error.code ?? "INTERNAL", response.error.message);
  if (!Array.isArray(response.outputs)) return internal(`model '${name}' gave a response without outputs`);
  const wrong = response.outputs.find((output: Tensor) => !isTensor(output));
  if (wrong !== undefined)
    return internal(`model '${name}' gave an output '${String(wrong?.name)}' whose data do not fit its type and shape`);
  return { outputs: response.outputs, parameters: [] };
}

function isTensor(output: Tensor): boolean {
  const { datatype, shape, data } = output ?? {};
  if (!isDatatype(String(datatype)) || !Array.isArray(shape) || !(data instanceof Uint8Array)) return false;
  return datatype === "BYTES" || data.length === elementCount(shape) * ELEMENT_BYTES[datatype];
}

function incomplete({ name, datatype, data }: Tensor): string | undefined {
  if (datatype !== "BYTES") return undefined;
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  for (let at = 0; at < data.length; ) {
    const length = view.getUint32(at, true);
    at += 4;
    if (at + length > data.length)
      return `incomplete string data for inference input '${name}', expecting string of length ${length} but only ${data.length - at} bytes available`;
    at += length;
  }
  return undefined;
}
