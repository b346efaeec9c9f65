/**
 * Runs the requests of a front end on one of our engines. The tokens of a step are sent as one message per process of the front
 * end.
 */

import { REQUESTS_MOST } from "../../base/core-limits.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { Finish, type Receiver } from "../../engine/interface/types.ts";
import { RepetitionWatch } from "../openai/overrides/repetition.ts";
import type { EngineAdapters } from "./adapters.ts";
import type { EngineKernel } from "./engine-kernel.ts";
import { FrontDisturber } from "./faults/disturber.ts";
import type { FrontFault } from "./faults/front-faults.ts";
import { COORDINATOR } from "./front-link.ts";
import type { FrontMessage } from "./messages/incoming.ts";
import type { MessageLayout } from "./messages/layouts.ts";
import { type EngineCoreOutput, OutputFinish, OutputsWriter, PLAIN_OUTPUT, PLAIN_OUTPUTS } from "./messages/outputs.ts";
import type { EngineCoreRequest, RequestError, UtilityCall } from "./messages/request.ts";
import type { SchedulerStats } from "./messages/stats.ts";
import { type EngineRun, Preparer } from "./prepare.ts";
import { RankControl } from "./rank-control.ts";
import { RequestFacts } from "./request-facts.ts";
import { type OutputReceiver, RunningRequest } from "./running-request.ts";
import { StepStats } from "./step-stats.ts";
import { Utilities } from "./utilities.ts";

/** The connections to the front end. */
export interface FrontSender {
  /** Sends frames to the process with this index, or to the `COORDINATOR`. */
  readonly send: (client: number, frames: readonly Uint8Array[]) => void;
  readonly isReady: () => boolean;
  readonly hasCoordinator: () => boolean;
  readonly leave: (isDead: boolean) => void;
}

/** The outputs of a step so far, for one process of the front end. */
interface StepOutputs {
  /** Due time of the step. */
  readonly dueUs: number;
  readonly outputs: EngineCoreOutput[];
  readonly ids: Set<string>;
  readonly finished: string[];
}

/** vLLM's answer to a request that arrives during a pause (`vllm/v1/engine/core.py`). */
const PAUSED = "Generation is paused. Please retry after it resumes.";

/** The engine among those of this process, and its rank for the front end. */
export interface EnginePlace {
  readonly index: number;
  readonly rank: number;
}

export class RunningRequests implements OutputReceiver {
  readonly #writer: OutputsWriter;
  readonly #preparer: Preparer;
  /** Requests by id. Null: it is being prepared. */
  readonly #requests = new Map<string, RunningRequest | null>();
  /** Outputs that are not sent yet, by the index of their process. */
  readonly #steps = new Map<number, StepOutputs>();
  readonly #utilities: Utilities;
  readonly #stats: StepStats;
  /** Null until a fault is ordered. */
  #disturber: FrontDisturber | null = null;
  #isFlushing = false;
  /** Numbers of waiting and running requests that the coordinator knows. */
  #told = "0 0";

  constructor(
    private readonly kernel: EngineKernel,
    layout: MessageLayout,
    private readonly place: EnginePlace,
    adapters: EngineAdapters,
    private readonly front: FrontSender,
  ) {
    const { fleet } = kernel.engines;
    this.#writer = new OutputsWriter(layout);
    this.#preparer = new Preparer(kernel, adapters, place.index);
    const control = new RankControl(fleet, place.index);
    this.#utilities = new Utilities(control, adapters, kernel.config.engine.maxLoras > 0);
    this.#stats = new StepStats(() => fleet.engines[place.index]!.view("step"), adapters);
    const { faults } = kernel.config.join;
    if (faults !== undefined) this.#disturber = this.#disturbed(faults);
  }

  /** True if a fault may hold messages back, or if the output is not sent yet. */
  keepsOutputOf({ client, id }: RunningRequest): boolean {
    return this.#disturber !== null || this.#steps.get(client)?.ids.has(id) === true;
  }

  /** Number of requests that have not ended. */
  get count(): number {
    return this.#requests.size;
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

  /** Begins anew with a front end that knows nothing of what an earlier one did. */
  begins(): void {
    this.abortAll();
    this.#told = "0 0";
    void this.#utilities.reset();
  }

  /** Answers a request that has a wrong field. */
  refused({ client_index, request_id, message }: RequestError): void {
    this.#reject(client_index, request_id, "validation_error", message);
  }

  /** Aborts all requests, because nobody waits for their answers. */
  abortAll(): void {
    for (const id of [...this.#requests.keys()]) this.#abort(id);
    this.#steps.clear();
  }

  /**
   * Sends statistics that have changed in a step without outputs, for example after the last request was aborted. They go to the
   * first process, as in vLLM.
   */
  moved(): void {
    if (this.#isFlushing || !this.#stats.hasMoved || !this.front.isReady()) return;
    const scheduler_stats = this.#stats.next();
    this.#reportLoad(scheduler_stats);
    this.#sendNow(0, this.kernel.backend.nowUs(), { scheduler_stats });
  }

  begun(): void {
    this.#stats.scheduled();
  }

  output({ client }: RunningRequest, output: EngineCoreOutput, dueUs: number | undefined): void {
    this.#output(client, output, dueUs);
  }

  ended({ id }: RunningRequest, finish: Finish): void {
    this.#requests.delete(id);
    const { accounting } = this.kernel.metrics;
    accounting.settled(finish === Finish.Length ? "length" : finish === Finish.Error ? "error" : "stop");
  }

  async #answer(call: UtilityCall): Promise<void> {
    const utility_output = await this.#utilities.answer(call);
    this.#sendNow(call.client_index, this.kernel.backend.nowUs(), { utility_output });
  }

  #abort(id: string): void {
    const request = this.#requests.get(id);
    if (!this.#requests.delete(id)) return;
    request?.abort();
    this.#disturber?.forget(id);
    this.kernel.metrics.accounting.settled("abort");
  }

  #add(request: EngineCoreRequest): void {
    const { request_id: id, client_index: client, abort_immediately } = request;
    if (this.#requests.has(id) || abort_immediately) return;
    if (this.#requests.size >= REQUESTS_MOST) {
      this.#reject(client, id, "engine_overloaded", "The engine is busy.");
      return;
    }
    // A coordinator wakes the other engines of its front end.
    if (this.#requests.size === 0 && this.front.hasCoordinator())
      this.#sendNow(COORDINATOR, this.kernel.backend.nowUs(), { start_wave: Math.max(0, request.current_wave) });
    let prepared: ReturnType<Preparer["prepare"]>;
    try {
      prepared = this.#preparer.prepare(request);
    } catch (error) {
      // An error that went on would end the connection, and with it all requests of the front end.
      this.#failed(request, error);
      return;
    }
    if (!(prepared instanceof Promise)) {
      if ("refused" in prepared) this.#reject(client, id, "validation_error", prepared.refused);
      else this.#submit(request, prepared);
      return;
    }
    this.kernel.metrics.accounting.opened();
    this.#requests.set(id, null);
    void prepared.then(
      (ready) => {
        // Null: not aborted meanwhile.
        if (this.#requests.get(id) !== null) return;
        this.#requests.delete(id);
        if (!("refused" in ready)) return this.#submit(request, ready, true);
        this.kernel.metrics.accounting.settled("refused");
        this.#reject(client, id, "validation_error", ready.refused);
      },
      (error: unknown) => {
        if (!this.#requests.delete(id)) return;
        this.kernel.metrics.accounting.settled("error");
        this.#failed(request, error);
      },
    );
  }

  /** Answers a request whose preparation failed, and logs the reason. */
  #failed({ request_id: id, client_index: client }: EngineCoreRequest, error: unknown): void {
    logUnexpected("a request of the front end failed", error);
    this.#reject(client, id, "internal_error", "The engine could not prepare the request.");
  }

  /** `isOpened`: the request is counted as open. */
  #submit({ request_id: id, client_index: client }: EngineCoreRequest, prepared: EngineRun, isOpened = false): void {
    const { backend, metrics, config } = this.kernel;
    const { player } = this.#preparer;
    const { enablePrefixCaching, blockSize } = config.engine;
    const facts = new RequestFacts(enablePrefixCaching ? blockSize : 0);
    const running = new RunningRequest(id, client, prepared, facts, this);
    const { script, repetition } = prepared;
    const together = script && player.begins(script, 1);
    const played = script && player.play(script, running, prepared.generation, repetition, together);
    const receiver: Receiver =
      played?.receiver ?? (repetition === null ? running : new RepetitionWatch(running, repetition));
    const submission = backend.submit(played?.generation ?? prepared.generation, receiver);
    if ("refused" in submission) {
      if (isOpened) metrics.accounting.settled("refused");
      if (submission.refused === "paused") this.#reject(client, id, "engine_paused", PAUSED);
      else this.#reject(client, id, "engine_overloaded", `The engine is ${submission.refused}.`);
      return;
    }
    if (!isOpened) metrics.accounting.opened();
    if (prepared.faults !== null) {
      this.#disturber ??= this.#disturbed([]);
      this.#disturber.order(id, prepared.faults);
    }
    running.submission = submission;
    this.#requests.set(id, running);
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
      this.#reportLoad(stats);
      for (const [index, one] of this.#steps) {
        this.#flush(index, one, stats);
        stats = null;
      }
    });
  }

  /** Tells the coordinator how many requests wait and run, if that has changed. */
  #reportLoad(stats: SchedulerStats): void {
    if (!this.front.hasCoordinator()) return;
    const load = `${stats.num_waiting_reqs} ${stats.num_running_reqs}`;
    if (load === this.#told) return;
    this.#told = load;
    this.#sendNow(COORDINATOR, this.kernel.backend.nowUs(), { scheduler_stats: stats });
  }

  #flush(client: number, { dueUs, outputs, finished }: StepOutputs, stats: SchedulerStats | null = null): void {
    this.#steps.delete(client);
    const finished_requests = finished.length > 0 ? finished : null;
    this.#sendNow(client, dueUs, { outputs, finished_requests, scheduler_stats: stats });
  }

  #sendNow(client: number, nowUs: number, parts: Partial<typeof PLAIN_OUTPUTS>): void {
    const message = { ...PLAIN_OUTPUTS, engine_index: this.place.rank, timestamp: nowUs / 1e6, ...parts };
    if (this.#disturber === null || client === COORDINATOR) this.front.send(client, this.#writer.frames(message));
    else this.#disturber.send(client, message);
  }

  #disturbed(faults: readonly FrontFault[]): FrontDisturber {
    const { config } = this.kernel;
    return new FrontDisturber(faults, config.engine.seed, this.place.rank, {
      message: (client, message) => this.front.send(client, this.#writer.frames(message)),
      broken: (client, frame) => this.front.send(client, [frame]),
      leave: this.front.leave,
    });
  }
}
