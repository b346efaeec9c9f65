/**
 * Counts the metrics of the LLM backends, per model version and from 0 after each load: the families of vLLM's backend
 * (`metrics.py`, January 2026), and two histograms of TensorRT-LLM's (`custom_metrics_reporter.cc`).
 */
import { BucketCounts } from "../../../engine/interface/bucket-counts.ts";
import { type Lane, TIMES_KEPT } from "../../../engine/interface/lanes.ts";
import { TOKENS } from "../../../metrics/ensemble/model-numbers.ts";
import type { ModelHost } from "../behaviours/behaviour.ts";
import type { ModelConfig } from "../model-config/model-config.ts";

const TTFT_S = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const TPOT_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const E2E_S = [1, 2.5, 5, 10, 15, 20, 30, 40, 50, 60];
const PARAMS_N = [1, 2, 5, 10, 20];

/** Returns the bounds 1, 2, 5, 10, 20 … up to `most`. */
function oneTwoFive(most: number): number[] {
  const bounds: number[] = [];
  for (let ten = 1; ten <= most; ten *= 10) bounds.push(...[ten, 2 * ten, 5 * ten].filter((bound) => bound <= most));
  return bounds;
}

export class VllmCounts {
  promptTokens = 0;
  generationTokens = 0;
  readonly ttftS = new BucketCounts(TTFT_S);
  readonly tpotS = new BucketCounts(TPOT_S);
  readonly e2eS = new BucketCounts(E2E_S);
  readonly prompt: BucketCounts;
  readonly generation: BucketCounts;
  readonly paramsN = new BucketCounts(PARAMS_N);

  constructor(maxModelLen: number) {
    this.prompt = new BucketCounts(oneTwoFive(maxModelLen));
    this.generation = new BucketCounts(oneTwoFive(maxModelLen));
  }
}

export class TrtllmCounts {
  readonly input = new BucketCounts(TOKENS);
  readonly output = new BucketCounts(TOKENS);
}

/** Observes the tokens of one sequence. */
export interface TokenObserver {
  /** Counts `made` new tokens. `all`: tokens so far. `ended`: the sequence is complete. */
  tokens(made: number, all: number, ended: boolean): void;
  /** Reports that tokens go through a lane from now on, without a call per token. `settle` counts the tokens so far. */
  followLane(settle: () => void): void;
  /** Counts tokens that went through the lane, one per step. */
  countLaneTokens(made: number, lane: Lane): void;
  /** Reports that the client has left. */
  stop(): void;
}

/** Number of sequences of a request, and of those that have not ended. */
export interface Siblings {
  readonly count: number;
  left: number;
}

type ModelVersionName = Pick<ModelHost, "name" | "version">;
const keyOf = ({ name, version }: ModelVersionName) => `${name}/${version}`;

/** True if the configuration of a vLLM model enables its metrics. */
const reports = ({ parameters }: ModelConfig): boolean =>
  parameters?.REPORT_CUSTOM_METRICS?.string_value?.toLowerCase() === "true";

export class LlmCounts {
  readonly vllm = new Map<string, VllmCounts>();
  readonly trtllm = new Map<string, TrtllmCounts>();
  /** Observers with tokens in lanes that are not counted yet, with the functions that count them. */
  readonly #lanes = new Map<TokenObserver, () => void>();

  constructor(
    private readonly nowUs: () => number,
    private readonly maxModelLen: number,
  ) {}

  /** Resets the counts of a version that was loaded. */
  loaded(host: ModelHost, backend: "vllm" | "trtllm"): void {
    const key = keyOf(host);
    this.vllm.delete(key);
    this.trtllm.delete(key);
    if (backend === "trtllm") this.trtllm.set(key, new TrtllmCounts());
    else if (reports(host.config)) this.vllm.set(key, new VllmCounts(this.maxModelLen));
  }

  /** Records the tokens of a finished request to the TensorRT-LLM backend, summed over its sequences. */
  lengths(host: ModelVersionName, input: number, output: number): void {
    const counts = this.trtllm.get(keyOf(host));
    counts?.input.observe(input);
    counts?.output.observe(output);
  }

  /** Returns an observer for one sequence of a request to the vLLM backend. */
  watch(host: ModelVersionName, siblings: Siblings, promptTokens: number, arrivalUs: number): TokenObserver {
    const counts = this.vllm.get(keyOf(host));
    if (counts === undefined) return NO_OBSERVER;
    return new CountingObserver(counts, siblings, promptTokens, arrivalUs, this.nowUs, this.#lanes);
  }

  /** Counts all tokens that went through lanes. Call it before reading the counts. */
  settle(): void {
    for (const settle of this.#lanes.values()) settle();
  }
}

const NO_OBSERVER: TokenObserver = { tokens() {}, followLane() {}, countLaneTokens() {}, stop() {} };

class CountingObserver implements TokenObserver {
  /** Time of the last token, or -1 before the first. */
  #lastUs = -1;

  constructor(
    private readonly counts: VllmCounts,
    private readonly siblings: Siblings,
    private readonly promptTokens: number,
    private readonly arrivalUs: number,
    private readonly nowUs: () => number,
    private readonly lanes: Map<TokenObserver, () => void>,
  ) {}

  followLane(settle: () => void): void {
    this.lanes.set(this, settle);
  }

  stop(): void {
    this.lanes.delete(this);
  }

  countLaneTokens(made: number, lane: Lane): void {
    const counts = this.counts;
    counts.generationTokens += made;
    const end = lane.next;
    const known = Math.min(made, TIMES_KEPT - 1);
    const early = made - known;
    // The lane keeps only the latest times. Older steps are assumed to be equally spaced.
    const earlyUs = early === 0 ? 0 : (lane.dueUs(end - known) - this.#lastUs) / (early + 1);
    for (let left = early; left > 0; left--) this.#gap(this.#lastUs + earlyUs);
    for (let step = end - known; step < end; step++) this.#gap(lane.dueUs(step));
  }

  #gap(nowUs: number): void {
    this.counts.tpotS.observe(Math.max(0, nowUs - this.#lastUs) / 1e6);
    this.#lastUs = nowUs;
  }

  tokens(made: number, all: number, ended: boolean): void {
    const counts = this.counts;
    const nowUs = this.nowUs();
    if (made > 0) {
      counts.generationTokens += made;
      if (this.#lastUs < 0) {
        counts.promptTokens += this.promptTokens;
        counts.ttftS.observe((nowUs - this.arrivalUs) / 1e6);
        this.#lastUs = nowUs;
      } else this.#gap(nowUs);
    }
    if (!ended) return;
    this.stop();
    counts.e2eS.observe((nowUs - this.arrivalUs) / 1e6);
    counts.prompt.observe(this.promptTokens);
    counts.generation.observe(all);
    this.siblings.left--;
    if (this.siblings.left === 0) counts.paramsN.observe(this.siblings.count);
  }
}
