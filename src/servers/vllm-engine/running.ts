/**
 * Runs the requests of a front end on our engine: submits them, and sends the tokens of each step as one message per process of
 * the front end.
 */
import { Finish, type Generation, type Submission } from "../../engine/interface/types.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { distinctIds } from "../../text/answers/id-set.ts";
import type { FrontMessage } from "./messages/incoming.ts";
import type { MessageLayout } from "./messages/layouts.ts";
import { type EngineCoreOutput, OutputFinish, OutputsWriter, PLAIN_OUTPUT, PLAIN_OUTPUTS } from "./messages/outputs.ts";
import type { EngineCoreRequest, RequestError, SamplingParams, UtilityCall } from "./messages/request.ts";
import type { SchedulerStats } from "./messages/stats.ts";
import { RequestFacts } from "./request-facts.ts";
import { StepStats } from "./step-stats.ts";
import { Utilities } from "./utilities.ts";

/** Sends frames to the process of the front end with this index. */
export type SendToFront = (client: number, frames: readonly Uint8Array[]) => void;

/** The outputs of a step so far, for one process of the front end. */
interface StepOutputs {
  /** Due time of the step. */
  readonly dueUs: number;
  readonly outputs: EngineCoreOutput[];
  readonly ids: Set<string>;
  readonly finished: string[];
}

type EngineKernel = Pick<Kernel, "backend" | "chance" | "config" | "engines" | "metrics" | "text">;

export class RunningRequests {
  readonly #writer: OutputsWriter;
  readonly #submissions = new Map<string, Submission>();
  /** Outputs that are not sent yet, by the index of their process. */
  readonly #steps = new Map<number, StepOutputs>();
  readonly #utilities: Utilities;
  readonly #stats: StepStats;
  #isFlushing = false;

  constructor(
    private readonly kernel: EngineKernel,
    layout: MessageLayout,
    private readonly engineIndex: number,
    private readonly send: SendToFront,
  ) {
    const { fleet } = kernel.engines;
    this.#writer = new OutputsWriter(layout);
    this.#utilities = new Utilities(fleet);
    this.#stats = new StepStats(() => fleet.engines[0]!.view("step"));
  }

  /** Number of requests that have not ended. */
  get count(): number {
    return this.#submissions.size;
  }

  received(message: FrontMessage): void {
    switch (message.type) {
      case "add":
        this.#add(message.request);
        break;
      case "abort":
        for (const id of message.request_ids) this.#abort(id);
        break;
      case "utility":
        void this.#answer(message.call);
        break;
      default:
      // An engine without collective steps needs no waking.
    }
  }

  /** Answers a request that has a wrong field. */
  refused({ client_index, request_id, message }: RequestError): void {
    this.#reject(client_index, request_id, "validation_error", message);
  }

  /** Aborts all requests, because nobody waits for their answers. */
  abortAll(): void {
    for (const id of [...this.#submissions.keys()]) this.#abort(id);
    this.#steps.clear();
  }

  async #answer(call: UtilityCall): Promise<void> {
    const utility_output = await this.#utilities.answer(call);
    this.#sendNow(call.client_index, this.kernel.backend.nowUs(), { utility_output });
  }

  #abort(id: string): void {
    const submission = this.#submissions.get(id);
    if (submission === undefined) return;
    this.#submissions.delete(id);
    submission.cancel();
    this.kernel.metrics.accounting.settled("abort");
  }

  #add(request: EngineCoreRequest): void {
    const { request_id: id, client_index: client } = request;
    if (this.#submissions.has(id)) return;
    const generation = generationOf(request, this.kernel);
    if (typeof generation === "string") {
      this.#reject(client, id, "validation_error", generation);
      return;
    }
    const { backend, metrics, config } = this.kernel;
    const facts = new RequestFacts(config.engine.enablePrefixCaching ? config.engine.blockSize : 0);
    const submission = backend.submit(generation, {
      streams: true,
      onTokens: (ids, at, count, finish, stopTokenId) => {
        if (finish === null && count === 0) return;
        const live = this.#submissions.get(id)!;
        const { isFirst, ...told } = facts.next(live);
        if (isFirst) this.#stats.scheduled();
        this.#output(
          client,
          {
            ...PLAIN_OUTPUT,
            ...told,
            request_id: id,
            new_token_ids: Array.from(ids.subarray(at, at + count)),
            finish_reason: finish as OutputFinish | null,
            stop_reason: stopTokenId < 0 ? null : stopTokenId,
          },
          live.timeline?.stepDueUs,
        );
        if (finish === null) return;
        this.#submissions.delete(id);
        metrics.accounting.settled(finish === Finish.Length ? "length" : finish === Finish.Stop ? "stop" : "error");
      },
    });
    if ("refused" in submission) {
      this.#reject(client, id, "engine_overloaded", `The engine is ${submission.refused}.`);
      return;
    }
    metrics.accounting.opened();
    this.#submissions.set(id, submission);
  }

  #reject(client: number, id: string, code: string, message: string): void {
    this.#output(client, {
      ...PLAIN_OUTPUT,
      request_id: id,
      new_token_ids: [],
      finish_reason: OutputFinish.Error,
      error: { code, message, retryable: code !== "validation_error" },
    });
  }

  /** Adds an output to its step. The step is sent when the engine has delivered all of its tokens. */
  #output(client: number, output: EngineCoreOutput, dueUs = this.kernel.backend.nowUs()): void {
    let step = this.#steps.get(client);
    // A second output of a request belongs to the next step.
    if (step?.ids.has(output.request_id)) {
      this.#flush(client, step);
      step = undefined;
    }
    if (step === undefined) {
      step = { dueUs, outputs: [], ids: new Set(), finished: [] };
      this.#steps.set(client, step);
    }
    step.outputs.push(output);
    step.ids.add(output.request_id);
    if (output.finish_reason !== null) step.finished.push(output.request_id);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => {
      this.#isFlushing = false;
      // The statistics travel with one message.
      let stats: SchedulerStats | null = this.#stats.next();
      for (const [index, one] of this.#steps) {
        this.#flush(index, one, stats);
        stats = null;
      }
    });
  }

  #flush(client: number, { dueUs, outputs, finished }: StepOutputs, stats: SchedulerStats | null = null): void {
    this.#steps.delete(client);
    const finished_requests = finished.length > 0 ? finished : null;
    this.#sendNow(client, dueUs, { outputs, finished_requests, scheduler_stats: stats });
  }

  #sendNow(client: number, nowUs: number, parts: Partial<typeof PLAIN_OUTPUTS>): void {
    const timestamp = nowUs / 1e6;
    this.send(client, this.#writer.frames({ ...PLAIN_OUTPUTS, engine_index: this.engineIndex, timestamp, ...parts }));
  }
}

/** Largest token id that the engine holds. */
const ID_MOST = 2 ** 32 - 1;

/** Returns what the engine must generate, or the reason why it cannot. */
function generationOf(request: EngineCoreRequest, kernel: EngineKernel): Generation | string {
  const { prompt_token_ids: prompt, sampling_params: params } = request;
  const { config, chance, backend } = kernel;
  if (params === null) return "this engine only generates text: sampling_params is missing";
  if (prompt === null || prompt.length === 0) return "prompt_token_ids: must have at least one token";
  const strange = prompt.find((id) => id < 0 || id > ID_MOST);
  if (strange !== undefined) return `prompt_token_ids: takes ids from 0 to ${ID_MOST}, not ${strange}`;
  const most = config.engine.maxModelLen - prompt.length;
  if (most < 1) return `a prompt of ${prompt.length} tokens, and the model takes ${config.engine.maxModelLen}`;
  const seed = params.seed === null ? chance.nextSeed() : params.seed >>> 0;
  return {
    promptIds: Uint32Array.from(prompt),
    maxTokens: Math.max(1, Math.min(params.max_tokens ?? most, most)),
    minTokens: params.min_tokens,
    ...endOf(params, seed, kernel),
    seed,
    priority: request.priority,
    cacheSalt: request.cache_salt ?? "",
    skipReadingPrefixCache: params.skip_reading_prefix_cache ?? false,
    arrivalUs: backend.nowUs(),
  };
}

/** Returns what ends an answer before its limit. Without an end-of-sequence token nothing does but the stop tokens. */
function endOf(params: SamplingParams, seed: number, { text }: EngineKernel) {
  const ignoreEos = params._eos_token_id === null;
  return {
    ignoreEos,
    plannedTokens: ignoreEos ? null : text.naturalLength(seed),
    stopTokenIds: distinctIds(params.stop_token_ids ?? [], text.model.vocabulary.size),
  };
}
