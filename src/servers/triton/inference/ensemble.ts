/**
 * Runs ensembles. A step runs as soon as its inputs are ready. Each response of a decoupled step continues separately. An
 * ensemble has its own counters in addition to those of its steps. Source: `ensemble_scheduler.cc` (2026); observed on 2.51.
 */
import type { EnsembleStep } from "../model-config/model-config.ts";
import { internal, TritonError } from "../model-config/status.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import { insertAnswer, withRequestedOutputs } from "./cached.ts";
import { AnswerFit } from "./fitting.ts";
import { LoadedVersion } from "./loaded-version.ts";
import { type InferAnswer, type InferInput, type InferParameters, InferRequest } from "./request.ts";
import type { ModelVersion, SharedParts, VersionParts } from "./served.ts";

/** Returns the sequence parameters that every answer of an ensemble contains. The correlation id is signed here. */
function sequenceOf({ sequence: { id, start, end } }: InferRequest): InferParameters {
  const signed = typeof id === "string" ? id : BigInt.asIntN(64, id);
  const printedId = typeof signed === "bigint" && Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
  return [
    ["sequence_id", printedId],
    ["sequence_start", start],
    ["sequence_end", end],
  ];
}

export interface EnsembleOptions extends VersionParts {
  /** Throws a `TritonError` if the version is not found. */
  readonly find: (name: string, version: number) => ModelVersion;
  readonly shared: SharedParts;
}

export class EnsembleModel extends LoadedVersion {
  readonly dead = false;
  readonly fit: AnswerFit;

  constructor(private readonly options: EnsembleOptions) {
    super(options, options.shared);
    this.fit = new AnswerFit(options.config, null);
  }

  protected accept(request: InferRequest, key: string | null): void {
    this.live++;
    new EnsembleRun(this, this.options, request, key, () => this.live--).begin();
  }
}

/** Recorded as the error only. The client has already received a part of the answer. */
const BROKEN = "the model failed in the middle of its answer";

/** Tensors of one path through the graph, and the steps that have started on it. */
interface EnsembleBranch {
  /** Tensors by name. Null: the step finished without this output. */
  readonly tensors: Map<string, Tensor | null>;
  readonly begun: Set<EnsembleStep>;
  answered: boolean;
}

class EnsembleRun {
  readonly #branches: EnsembleBranch[] = [];
  /** Number of steps that have not had their last response. */
  #running = 0;
  /** Depth of nested calls. Above 0, steps may respond synchronously, so that progress is checked later. */
  #busy = 0;
  #over = false;
  #stepUs = -1;
  readonly #times: [number, number, number] = [0, 0, 0];
  /** The latest answer. It is sent only when the next one is known, because the last answer carries the final flag. */
  #pendingAnswer: InferAnswer | null = null;

  constructor(
    private readonly ensemble: EnsembleModel,
    private readonly options: EnsembleOptions,
    private readonly request: InferRequest,
    private readonly key: string | null,
    private readonly ended: () => void,
  ) {}

  begin(): void {
    const first: EnsembleBranch = { tensors: new Map(this.request.inputs), begun: new Set(), answered: false };
    this.#branches.push(first);
    this.#busy++;
    this.#advance(first);
    this.#busy--;
    this.#checkProgress();
  }

  get #steps(): readonly EnsembleStep[] {
    return this.options.config.ensemble_scheduling!.step!;
  }

  #advance(branch: EnsembleBranch): void {
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

  /** Returns the inputs of a step, or null if a tensor is missing. Omits ensemble inputs that the request did not set. */
  #inputs(step: EnsembleStep, { tensors }: EnsembleBranch): InferInput[] | null {
    const ensembleInputs = new Set((this.options.config.input ?? []).map(({ name }) => name));
    const made: InferInput[] = [];
    for (const [name, from] of Object.entries(step.input_map!)) {
      const tensor = tensors.get(from);
      if (tensor) made.push({ ...tensor, name });
      else if (tensor === undefined && !ensembleInputs.has(from)) return null;
    }
    return made;
  }

  #run(step: EnsembleStep, inputs: readonly InferInput[], branch: EnsembleBranch): void {
    this.#running++;
    if (this.#stepUs < 0) this.#stepUs = this.options.shared.clock.now();
    const { fields } = this.request;
    try {
      const model = this.options.find(step.model_name!, step.model_version ?? -1);
      const stepFields = { ...fields, inputs, outputs: [] };
      const respondTo = (answer: InferAnswer | TritonError | null, final: boolean) =>
        this.#onResponse(step, model, branch, answer, final);
      const request = new InferRequest(model.config, stepFields, { respond: respondTo });
      this.request.whenCancelled(() => request.leave(this.request.broken));
      request.reported = (times) => {
        for (const [at, us] of times.entries()) this.#times[at]! += us;
      };
      model.submit(request);
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      this.#running--;
      this.#fail(error);
    }
  }

  #onResponse(
    step: EnsembleStep,
    model: ModelVersion,
    from: EnsembleBranch,
    answer: InferAnswer | TritonError | null,
    final: boolean,
  ): void {
    if (final) this.#running--;
    this.#busy++;
    if (answer instanceof TritonError) this.#fail(answer);
    else if (answer !== null && !this.#over) {
      const decoupled = model.config.model_transaction_policy?.decoupled === true;
      const branches = decoupled ? [this.#fork(from)] : this.#branches.filter((other) => other.begun.has(step));
      for (const branch of branches) {
        for (const [name, to] of Object.entries(step.output_map!)) {
          const tensor = answer.outputs.find((output) => output.name === name);
          branch.tensors.set(to, tensor === undefined ? null : { ...tensor, name: to });
        }
        this.#advance(branch);
      }
    }
    this.#busy--;
    this.#checkProgress();
  }

  #fork({ tensors, begun }: EnsembleBranch): EnsembleBranch {
    const branch = { tensors: new Map(tensors), begun: new Set(begun), answered: false };
    this.#branches.push(branch);
    return branch;
  }

  /** Creates the answer of a branch if all outputs are ready. */
  #answer(branch: EnsembleBranch): void {
    // The real server stores outputs in a hash map, which returns them in reverse order.
    const names = [...new Set((this.options.config.output ?? []).map(({ name }) => name).toReversed())];
    if (this.#over || branch.answered || !names.every((name) => branch.tensors.has(name))) return;
    branch.answered = true;
    if (this.#pendingAnswer !== null) this.#send(this.#pendingAnswer, false);
    const outputs = names.flatMap((name) => branch.tensors.get(name) ?? []);
    const answer = this.ensemble.fit.fitted({ outputs, parameters: sequenceOf(this.request) });
    if (answer instanceof TritonError) this.#fail(answer);
    else this.#pendingAnswer = answer;
  }

  #checkProgress(): void {
    if (this.#busy > 0) return;
    if (this.#over || this.#running > 0) {
      // The next answer may take a while, so send this one now.
      if (!this.#over && this.#pendingAnswer !== null && this.#branches.some(({ answered }) => !answered)) {
        this.#send(this.#pendingAnswer, false);
        this.#pendingAnswer = null;
      }
      return;
    }
    const request = this.request;
    if (request.broken) {
      this.#fail(internal(BROKEN));
      return;
    }
    this.#over = true;
    const { statistics, shared } = this.options;
    const { clock, epochMs } = shared;
    const nowUs = clock.now();
    const cacheUs =
      this.key === null || this.#pendingAnswer === null
        ? null
        : insertAnswer(this.key, this.#pendingAnswer, request, shared);
    const queueUs = Math.max(0, this.#stepUs - request.queuedUs);
    const spans = [nowUs - request.startUs + (cacheUs ?? 0), queueUs, ...this.#times] as const;
    statistics.executed(request.batchSize, this.#times);
    statistics.succeeded(request.batchSize, spans, nowUs, epochMs(nowUs));
    if (cacheUs !== null) statistics.missed(cacheUs, nowUs);
    this.ended();
    this.#send(this.#pendingAnswer, true);
  }

  #send(answer: InferAnswer | null, final: boolean): void {
    this.ensemble.send(this.request, answer && withRequestedOutputs(this.request, answer), final);
  }

  /** Sends the error. Counts two failures for one request, one for the response and one for the report, as observed on 2.51. */
  #fail({ code, message }: TritonError): void {
    if (this.#over) return;
    this.#over = true;
    const { statistics, shared } = this.options;
    const nowUs = shared.clock.now();
    statistics.failed("OTHER", nowUs - this.request.startUs, 2);
    this.ended();
    this.ensemble.send(this.request, new TritonError(code, `in ensemble '${this.ensemble.name}', ${message}`), true);
  }
}
