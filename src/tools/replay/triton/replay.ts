/**
 * Replays a trace on a model of a Triton repository in simulated time. Schedulers, ensembles, response cache and statistics are
 * those of the server. Time jumps from one event to the next.
 */

import type { Clock } from "../../../base/clock.ts";
import type { VirtualClock } from "../../../base/virtual-clock.ts";
import { pause } from "../../../kernel/create-kernel.ts";
import {
  type InferInput,
  type InferReceiver,
  NO_SEQUENCE,
  type RequestFields,
} from "../../../servers/triton/inference/request.ts";
import type { ModelVersion } from "../../../servers/triton/inference/served.ts";
import type { TritonServer } from "../../../servers/triton/inference/server.ts";
import { maxBatchSize } from "../../../servers/triton/model-config/model-config.ts";
import { TritonError } from "../../../servers/triton/model-config/status.ts";
import { datatypeOf, ELEMENT_BYTES, elementCount, packTexts } from "../../../servers/triton/tensors/datatypes.ts";
import type { Pace, TraceRequest } from "../../../workloads/trace.ts";
import { TraceArrivals } from "../arrivals.ts";

export interface TritonReplayOptions {
  /** The server, not yet started. `load` starts it. */
  readonly server: TritonServer;
  readonly clock: VirtualClock;
  /** Clock of real time. A `model.ts` runs in turns of the event loop, and may wait for events outside of the simulation. */
  readonly wall: Clock;
  /** Name of the model. Its latest version gets the requests. */
  readonly model: string;
  readonly requests: Iterator<TraceRequest>;
  readonly pace: Pace;
  /** End of the replay in microseconds after its start; Infinity: the end of the last request. */
  readonly untilUs: number;
  readonly onProgress?: (atUs: number, counts: TritonReplayCounts) => void;
}

/** Numbers of requests so far. arrived = finished + failed + unfinished. */
export interface TritonReplayCounts {
  arrived: number;
  finished: number;
  /** Number of failed requests by error message. */
  readonly failed: Map<string, number>;
  unfinished: number;
  /** Maximum number of requests that waited for the model at once. */
  pendingPeak: number;
}

/** Most pauses of REST_US real time, for a model that waits for events outside of the simulation. */
const RESTS_MOST = 10_000;
const REST_US = 1000;
/** Most different error messages that are counted. Others are counted together. */
const KINDS_MOST = 100;

export class TritonReplay {
  readonly counts: TritonReplayCounts = { arrived: 0, finished: 0, failed: new Map(), unfinished: 0, pendingPeak: 0 };
  /** Time from arrival to last response of each finished request, in microseconds. */
  #latenciesUs = new Float64Array(1024);
  #fromUs = 0;
  #lastEndUs = 0;
  readonly #arrivals: TraceArrivals;
  #served!: ModelVersion;

  constructor(private readonly options: TritonReplayOptions) {
    const send = (request: TraceRequest) => this.#submit(request);
    this.#arrivals = new TraceArrivals({ requests: options.requests, clock: options.clock, send });
  }

  /** Latencies of finished requests in microseconds, in rising order. */
  get latenciesUs(): Float64Array {
    return this.#latenciesUs.subarray(0, this.counts.finished).toSorted();
  }

  /** Loads the models. Returns the errors of models that failed to load. Rejects if a repository is not a folder. */
  async load(): Promise<string[]> {
    const { server, clock, wall } = this.options;
    let done = false;
    const loading = server.start().finally(() => {
      done = true;
    });
    // The caller handles the rejection; without this it would count as unhandled until then.
    loading.catch(() => {});
    while (!done) {
      await turn(wall);
      if (!done && !clock.next()) await pause(wall, REST_US);
    }
    return loading;
  }

  /** Runs to the end. Returns the microseconds from the start to the last end, or `untilUs`. Throws the errors of the trace. */
  async run(): Promise<number> {
    const { server, clock, wall, model, untilUs, pace, onProgress } = this.options;
    const arrivals = this.#arrivals;
    this.#served = server.find(model, -1);
    const most = pace.kind === "closed" ? pace.concurrency : Number.POSITIVE_INFINITY;
    const { counts } = this;
    this.#fromUs = clock.now();
    this.#lastEndUs = this.#fromUs;
    const endUs = this.#fromUs + untilUs;
    arrivals.startAt(this.#fromUs);
    arrivals.advance();
    this.#fill(most);
    while (arrivals.hasMore || counts.unfinished > 0) {
      await turn(wall);
      this.#fill(most);
      const open = counts.unfinished < most;
      const arrivalUs =
        arrivals.next !== undefined && open ? this.#fromUs + arrivals.next.arrivalUs : Number.POSITIVE_INFINITY;
      const nextUs = Math.min(arrivalUs, clock.nextUs());
      if (nextUs === Number.POSITIVE_INFINITY) {
        const before = counts.unfinished;
        if (before === 0 && !arrivals.hasMore) break;
        const isProgress = () => counts.unfinished < before || clock.nextUs() < Number.POSITIVE_INFINITY;
        if (!(await this.#restsUntil(isProgress))) break;
        continue;
      }
      if (nextUs > endUs) return untilUs;
      clock.advanceTo(nextUs);
      onProgress?.(clock.now() - this.#fromUs, counts);
    }
    return this.#lastEndUs - this.#fromUs;
  }

  /** Submits due requests: in a closed loop up to `most`, in an open loop those that have arrived. */
  #fill(most: number): void {
    const { clock, pace } = this.options;
    const { counts } = this;
    const untilUs = pace.kind === "open" ? clock.now() - this.#fromUs : Number.POSITIVE_INFINITY;
    this.#arrivals.fill(() => counts.unfinished < most, untilUs);
    counts.pendingPeak = Math.max(counts.pendingPeak, this.#served.statistics.reporter.pending);
  }

  #submit(request: TraceRequest): void {
    const { server, clock, model } = this.options;
    const { counts } = this;
    const startUs = clock.now();
    counts.arrived++;
    counts.unfinished++;
    this.#arrivals.sent(request);
    const { conversation } = request;
    let why: string | null = null;
    const ended = () => {
      counts.unfinished--;
      this.#lastEndUs = clock.now();
      this.#arrivals.ended(conversation);
      if (why === null) this.#finished(clock.now() - startUs);
      else this.#failed(why);
    };
    const receiver: InferReceiver = {
      respond(answer, final) {
        if (answer instanceof TritonError) why = answer.message;
        if (final) ended();
      },
    };
    try {
      server.infer(model, -1, fieldsOf(this.#served.config, counts.arrived), receiver);
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      why = error.message;
      ended();
    }
  }

  #finished(latencyUs: number): void {
    const at = this.counts.finished++;
    if (at === this.#latenciesUs.length) {
      const grown = new Float64Array(at * 2);
      grown.set(this.#latenciesUs);
      this.#latenciesUs = grown;
    }
    this.#latenciesUs[at] = latencyUs;
  }

  #failed(why: string): void {
    const { failed } = this.counts;
    const kind = failed.has(why) || failed.size < KINDS_MOST ? why : "others";
    failed.set(kind, (failed.get(kind) ?? 0) + 1);
  }

  /** Waits in real time until `done` returns true. Returns false if it does not after RESTS_MOST pauses. */
  async #restsUntil(done: () => boolean): Promise<boolean> {
    for (let rests = 0; rests < RESTS_MOST; rests++) {
      await turn(this.options.wall);
      if (done()) return true;
      await pause(this.options.wall, REST_US);
    }
    return false;
  }
}

/** Waits for a turn of the event loop, in which ready callbacks run. */
const turn = (wall: Clock): Promise<void> => new Promise((done) => wall.turn(done));

/** Builds a request with batch size 1. Tensors have the declared shapes (variable sizes are 1) and contain zeros or empty strings. */
function fieldsOf(config: ModelVersion["config"], number: number): RequestFields {
  const batch = maxBatchSize(config) > 0 ? [1] : [];
  const inputs = (config.input ?? [])
    .filter(({ optional }) => !optional)
    .map(({ name, data_type: type, dims }): InferInput => {
      const datatype = datatypeOf(type);
      const shape = [...batch, ...dims.map((dim) => Math.max(1, dim))];
      const count = elementCount(shape);
      const texts = () => packTexts(Array.from({ length: count }, () => ""));
      const data = datatype === "BYTES" ? texts() : new Uint8Array(count * ELEMENT_BYTES[datatype]);
      return { name, datatype, shape, data };
    });
  const sequence =
    config.sequence_batching === undefined ? NO_SEQUENCE : { id: BigInt(number), start: true, end: true };
  return { id: "", inputs, outputs: [], parameters: [], priority: 0, timeoutUs: 0, sequence };
}
