/**
 * How does an ensemble answer? Its steps run as soon as what they need is there; a decoupled step's responses each go on by
 * themselves. Its counts are its own, beside those of its steps: `ensemble_scheduler.cc` (2026), seen on 2.51.
 */
import type { EnsembleStep, ModelConfig } from "../model-config/model-config.ts";
import { internal, TritonError } from "../model-config/status.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import { HIT, keep, lookUp, wanted } from "./cached.ts";
import { AnswerFit } from "./fitting.ts";
import { type InferAnswer, type InferInput, type InferParameters, InferRequest } from "./request.ts";
import { passOn, type Served, type Shared } from "./served.ts";
import type { ModelStatistics } from "./statistics.ts";

/** Every answer of an ensemble says so; the number is signed here. */
function sequenceOf({ sequence: { id, start, end } }: InferRequest): InferParameters {
  const signed = typeof id === "string" ? id : BigInt.asIntN(64, id);
  const shown = typeof signed === "bigint" && Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
  return [
    ["sequence_id", shown],
    ["sequence_start", start],
    ["sequence_end", end],
  ];
}

export interface EnsembleOptions extends Pick<Served, "config" | "labels" | "statistics" | "version"> {
  /** Throws a `TritonError` where there is none. */
  readonly find: (name: string, version: number) => Served;
  readonly shared: Shared;
}

export class EnsembleModel implements Served {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  readonly labels: Served["labels"];
  readonly statistics: ModelStatistics;
  readonly dead = false;
  live = 0;
  readonly fit: AnswerFit;
  readonly #options: EnsembleOptions;

  constructor(options: EnsembleOptions) {
    this.name = options.config.name;
    this.version = options.version;
    this.config = options.config;
    this.labels = options.labels;
    this.statistics = options.statistics;
    this.fit = new AnswerFit(options.config, null);
    this.#options = options;
  }

  submit(request: InferRequest): void {
    const { shared } = this.#options;
    const nowUs = shared.clock.now();
    request.startUs ||= nowUs;
    request.queuedUs = nowUs;
    const key = lookUp(this, request, shared);
    if (key === HIT) return;
    this.live++;
    new Passage(this, this.#options, request, key, () => this.live--).begin();
  }
}

/** Said to nobody: the client has read of it. */
const BROKEN = "the model failed in the middle of its answer";

/** Tensors of one way through the graph, and the steps that have begun on it. */
interface Branch {
  /** null: its step was done without it. */
  readonly tensors: Map<string, Tensor | null>;
  readonly begun: Set<EnsembleStep>;
  answered: boolean;
}

class Passage {
  readonly #ensemble: EnsembleModel;
  readonly #options: EnsembleOptions;
  readonly #request: InferRequest;
  readonly #key: string | null;
  readonly #ended: () => void;
  readonly #branches: Branch[] = [];
  /** Steps that have not had their last response. */
  #running = 0;
  /** Steps are being begun: what is done at once comes before the next look. */
  #busy = 0;
  #over = false;
  #stepUs = -1;
  readonly #times = { inputUs: 0, inferUs: 0, outputUs: 0 };
  /** Not sent before it is known whether another comes: the last one carries the end. */
  #held: InferAnswer | null = null;

  constructor(
    ensemble: EnsembleModel,
    options: EnsembleOptions,
    request: InferRequest,
    key: string | null,
    ended: () => void,
  ) {
    this.#ensemble = ensemble;
    this.#options = options;
    this.#request = request;
    this.#key = key;
    this.#ended = ended;
  }

  begin(): void {
    const first: Branch = { tensors: new Map(this.#request.inputs), begun: new Set(), answered: false };
    this.#branches.push(first);
    this.#busy++;
    this.#advance(first);
    this.#busy--;
    this.#look();
  }

  get #steps(): readonly EnsembleStep[] {
    return this.#options.config.ensemble_scheduling!.step!;
  }

  #advance(branch: Branch): void {
    for (const step of this.#steps) {
      if (this.#over) return;
      if (branch.begun.has(step)) continue;
      const inputs = this.#inputs(step, branch);
      if (inputs === null) continue;
      branch.begun.add(step);
      this.#run(step, inputs, branch);
    }
    this.#answer(branch);
  }

  /** null: something is missing still. Inputs of the ensemble that were not given are left out. */
  #inputs(step: EnsembleStep, { tensors }: Branch): InferInput[] | null {
    const own = new Set((this.#options.config.input ?? []).map(({ name }) => name));
    const made: InferInput[] = [];
    for (const [name, from] of Object.entries(step.input_map!)) {
      const tensor = tensors.get(from);
      if (tensor) made.push({ ...tensor, name });
      else if (tensor === undefined && !own.has(from)) return null;
    }
    return made;
  }

  #run(step: EnsembleStep, inputs: readonly InferInput[], branch: Branch): void {
    this.#running++;
    if (this.#stepUs < 0) this.#stepUs = this.#options.shared.clock.now();
    const { fields } = this.#request;
    try {
      const model = this.#options.find(step.model_name!, step.model_version ?? -1);
      const given = { ...fields, inputs, outputs: [] };
      const respondTo = (answer: InferAnswer | TritonError | null, final: boolean) =>
        this.#came(step, model, branch, answer, final);
      const request = new InferRequest(model.config, given, { respond: respondTo });
      this.#request.whenCancelled(() => request.leave(this.#request.broken));
      request.reported = ({ inputUs, inferUs, outputUs }) => {
        this.#times.inputUs += inputUs;
        this.#times.inferUs += inferUs;
        this.#times.outputUs += outputUs;
      };
      model.submit(request);
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      this.#running--;
      this.#fail(error);
    }
  }

  #came(
    step: EnsembleStep,
    model: Served,
    from: Branch,
    answer: InferAnswer | TritonError | null,
    final: boolean,
  ): void {
    if (final) this.#running--;
    this.#busy++;
    if (answer instanceof TritonError) this.#fail(answer);
    else if (answer !== null && !this.#over) {
      const decoupled = model.config.model_transaction_policy?.decoupled === true;
      const branches = decoupled ? [this.#fork(from)] : this.#branches.filter((one) => one.begun.has(step));
      for (const branch of branches) {
        for (const [name, to] of Object.entries(step.output_map!)) {
          const tensor = answer.outputs.find((output) => output.name === name);
          branch.tensors.set(to, tensor === undefined ? null : { ...tensor, name: to });
        }
        this.#advance(branch);
      }
    }
    this.#busy--;
    this.#look();
  }

  #fork({ tensors, begun }: Branch): Branch {
    const branch = { tensors: new Map(tensors), begun: new Set(begun), answered: false };
    this.#branches.push(branch);
    return branch;
  }

  /** Where all outputs are there. */
  #answer(branch: Branch): void {
    // The real server keeps them in a hash map, which gives them the other way round.
    const names = [...new Set((this.#options.config.output ?? []).map(({ name }) => name).toReversed())];
    if (this.#over || branch.answered || !names.every((name) => branch.tensors.has(name))) return;
    branch.answered = true;
    if (this.#held !== null) this.#send(this.#held, false);
    const outputs = names.flatMap((name) => branch.tensors.get(name) ?? []);
    const answer = this.#ensemble.fit.fitted({ outputs, parameters: sequenceOf(this.#request) });
    if (answer instanceof TritonError) this.#fail(answer);
    else this.#held = answer;
  }

  #look(): void {
    if (this.#busy > 0) return;
    if (this.#over || this.#running > 0) {
      // Nothing more may come for a while.
      if (!this.#over && this.#held !== null && this.#branches.some(({ answered }) => !answered)) {
        this.#send(this.#held, false);
        this.#held = null;
      }
      return;
    }
    const request = this.#request;
    if (request.broken) {
      this.#fail(internal(BROKEN));
      return;
    }
    this.#over = true;
    const { statistics, shared } = this.#options;
    const { clock, epochMs } = shared;
    const nowUs = clock.now();
    const cacheUs = this.#key === null || this.#held === null ? null : keep(this.#key, this.#held, request, shared);
    const queueUs = Math.max(0, this.#stepUs - request.queuedUs);
    const spans = { ...this.#times, queueUs, requestUs: nowUs - request.startUs + (cacheUs ?? 0) };
    statistics.executed(request.batchSize, spans);
    statistics.succeeded(request.batchSize, spans, nowUs, epochMs());
    if (cacheUs !== null) statistics.missed(cacheUs, nowUs);
    this.#ended();
    this.#send(this.#held, true);
  }

  #send(answer: InferAnswer | null, final: boolean): void {
    const shown = answer && wanted(this.#request, answer);
    passOn(this.#request, this.#options.statistics, this.#options.shared.clock, shown, final);
  }

  /** Counted twice for one request: by the answer, and by the report (seen on 2.51). */
  #fail({ code, message }: TritonError): void {
    if (this.#over) return;
    this.#over = true;
    const { statistics, shared } = this.#options;
    const nowUs = shared.clock.now();
    statistics.failed("OTHER", nowUs - this.#request.startUs, 2);
    this.#ended();
    const error = new TritonError(code, `in ensemble '${this.#ensemble.name}', ${message}`);
    passOn(this.#request, statistics, shared.clock, error, true);
  }
}
