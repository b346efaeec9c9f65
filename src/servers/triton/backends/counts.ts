/**
 * What do LLM backends count by themselves? The families of vLLM's backend (`metrics.py`, January 2026) and the two histograms
 * that TensorRT-LLM's counts per request (`custom_metrics_reporter.cc`), by model and version; from 0 with each load.
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

/** 1, 2, 5, 10, 20 … up to `most`. */
function oneTwoFive(most: number): number[] {
  const bounds: number[] = [];
  for (let ten = 1; ten <= most; ten *= 10) bounds.push(...[ten, 2 * ten, 5 * ten].filter((one) => one <= most));
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

/** Told of the tokens of one sequence as they come. */
export interface LlmWatch {
  /** `made` more, `all` so far. */
  tokens(made: number, all: number, ended: boolean): void;
  /** Tokens go by a lane from now on: `settle` has it tell of those that went. */
  follows(settle: () => void): void;
  /** So many went by the lane, one a step. */
  went(made: number, lane: Lane): void;
  /** The client has left. */
  left(): void;
}

/** A request's sequences, of which some have not ended. */
export interface Siblings {
  readonly count: number;
  left: number;
}

type Named = Pick<ModelHost, "name" | "version">;
const keyOf = ({ name, version }: Named) => `${name}/${version}`;

/** vLLM's backend shows what it counts only where the configuration says so. */
const reports = ({ parameters }: ModelConfig): boolean =>
  parameters?.REPORT_CUSTOM_METRICS?.string_value?.toLowerCase() === "true";

export class LlmCounts {
  readonly vllm = new Map<string, VllmCounts>();
  readonly trtllm = new Map<string, TrtllmCounts>();
  /** Have tokens of which nobody was told: how they are. */
  readonly #lanes = new Map<LlmWatch, () => void>();
  readonly #nowUs: () => number;
  readonly #maxModelLen: number;

  constructor(nowUs: () => number, maxModelLen: number) {
    this.#nowUs = nowUs;
    this.#maxModelLen = maxModelLen;
  }

  /** Counts begin anew. */
  loaded(host: ModelHost, backend: "vllm" | "trtllm"): void {
    const key = keyOf(host);
    this.vllm.delete(key);
    this.trtllm.delete(key);
    if (backend === "trtllm") this.trtllm.set(key, new TrtllmCounts());
    else if (reports(host.config)) this.vllm.set(key, new VllmCounts(this.#maxModelLen));
  }

  /** Tokens of a request to TensorRT-LLM's backend that ended, all sequences together. */
  lengths(host: Named, input: number, output: number): void {
    const counts = this.trtllm.get(keyOf(host));
    counts?.input.observe(input);
    counts?.output.observe(output);
  }

  /** One sequence of a request to vLLM's backend. */
  watch(host: Named, siblings: Siblings, promptTokens: number, arrivalUs: number): LlmWatch {
    const counts = this.vllm.get(keyOf(host));
    if (counts === undefined) return NOBODY;
    return new Watch(counts, siblings, promptTokens, arrivalUs, this.#nowUs, this.#lanes);
  }

  /** Before anybody reads: what went by lanes is counted. */
  settle(): void {
    for (const settle of this.#lanes.values()) settle();
  }
}

const NOBODY: LlmWatch = { tokens() {}, follows() {}, went() {}, left() {} };

class Watch implements LlmWatch {
  readonly #counts: VllmCounts;
  readonly #siblings: Siblings;
  readonly #promptTokens: number;
  readonly #arrivalUs: number;
  readonly #nowUs: () => number;
  readonly #lanes: Map<LlmWatch, () => void>;
  /** When the last token came; -1: none has. */
  #lastUs = -1;

  constructor(
    counts: VllmCounts,
    siblings: Siblings,
    promptTokens: number,
    arrivalUs: number,
    nowUs: () => number,
    lanes: Map<LlmWatch, () => void>,
  ) {
    this.#counts = counts;
    this.#siblings = siblings;
    this.#promptTokens = promptTokens;
    this.#arrivalUs = arrivalUs;
    this.#nowUs = nowUs;
    this.#lanes = lanes;
  }

  follows(settle: () => void): void {
    this.#lanes.set(this, settle);
  }

  left(): void {
    this.#lanes.delete(this);
  }

  went(made: number, lane: Lane): void {
    const counts = this.#counts;
    counts.generationTokens += made;
    const end = lane.next;
    const known = Math.min(made, TIMES_KEPT - 1);
    const early = made - known;
    // Steps so long ago have equal parts of the time.
    const earlyUs = early === 0 ? 0 : (lane.dueUs(end - known) - this.#lastUs) / (early + 1);
    for (let left = early; left > 0; left--) this.#gap(this.#lastUs + earlyUs);
    for (let step = end - known; step < end; step++) this.#gap(lane.dueUs(step));
  }

  #gap(nowUs: number): void {
    this.#counts.tpotS.observe(Math.max(0, nowUs - this.#lastUs) / 1e6);
    this.#lastUs = nowUs;
  }

  tokens(made: number, all: number, ended: boolean): void {
    const counts = this.#counts;
    const nowUs = this.#nowUs();
    if (made > 0) {
      counts.generationTokens += made;
      if (this.#lastUs < 0) {
        counts.promptTokens += this.#promptTokens;
        counts.ttftS.observe((nowUs - this.#arrivalUs) / 1e6);
        this.#lastUs = nowUs;
      } else this.#gap(nowUs);
    }
    if (!ended) return;
    this.left();
    counts.e2eS.observe((nowUs - this.#arrivalUs) / 1e6);
    counts.prompt.observe(this.#promptTokens);
    counts.generation.observe(all);
    this.#siblings.left--;
    if (this.#siblings.left === 0) counts.paramsN.observe(this.#siblings.count);
  }
}
