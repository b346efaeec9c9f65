/**
 * Counts the values of the Prometheus page. When a request ends, the request and the newest iteration are counted. Other
 * iterations are not counted, because only finished requests wake the loop that collects them
 * (`tensorrt_llm/metrics/collector.py`, version 1.3).
 */
import { BucketCounts } from "../../engine/interface/bucket-counts.ts";
import { Finish } from "../../engine/interface/types.ts";
import type { EndedRequest, Iteration, Iterations } from "../../engine/iterations.ts";

const LONG = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
const FIRST = [
  ...[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160],
  ...[640, 2560],
];
const PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const PREFILL = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560];
const CACHED = [0, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
const BATCH_TOKENS = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

const REASONS: Readonly<Record<Finish, string>> = {
  [Finish.Stop]: "stop",
  [Finish.Length]: "length",
  [Finish.Abort]: "cancelled",
  [Finish.Error]: "cancelled",
  [Finish.Repetition]: "stop",
};

export class ServeCounts {
  readonly finished = new Map<string, number>();
  readonly errors = new Map<number, number>();
  readonly e2eS = new BucketCounts(LONG);
  readonly firstTokenS = new BucketCounts(FIRST);
  readonly perTokenS = new BucketCounts(PER_TOKEN);
  readonly queueS = new BucketCounts(LONG);
  readonly prefillS = new BucketCounts(PREFILL);
  readonly decodeS = new BucketCounts(LONG);
  readonly inferenceS = new BucketCounts(LONG);
  readonly cached = new BucketCounts(CACHED);
  readonly batchTokens = new BucketCounts(BATCH_TOKENS);
  promptTokens = 0;
  generationTokens = 0;
  cachedTokens = 0;
  /** The last counted iteration; null before the first. */
  last: Iteration | null = null;
  /** Sums over all counted iterations. */
  readonly reported = { completed: 0, reused: 0, reusedFully: 0, reusedPartly: 0, missed: 0, generated: 0, copied: 0 };
  /** Ratio of reused blocks, 0 to 1, in the last counted iteration that looked up blocks; null before the first. */
  reuseRate: number | null = null;

  constructor(readonly iterations: Iterations) {}

  /** Starts counting. Consumes the records of iterations, so `/metrics` no longer returns them. */
  listen(): void {
    this.iterations.ended = (request) => {
      this.#ended(request);
      this.#report();
    };
  }

  get batchSize(): number {
    return this.iterations.batchSize;
  }

  /** Counts an answer with an error status. */
  failed(status: number): void {
    this.errors.set(status, (this.errors.get(status) ?? 0) + 1);
  }

  #ended(request: EndedRequest): void {
    const { finish, arrivalUs, scheduledUs, firstTokenUs, endUs, outputTokens: tokens } = request;
    if (finish === null) return;
    const reason = REASONS[finish];
    this.finished.set(reason, (this.finished.get(reason) ?? 0) + 1);
    const seconds = (fromUs: number, toUs: number) => (toUs - fromUs) / 1e6;
    const some = (into: BucketCounts, value: number) => {
      if (value > 0) into.observe(value);
    };
    const queueS = seconds(arrivalUs, scheduledUs);
    this.queueS.observe(Math.max(0, queueS || 0));
    some(this.e2eS, seconds(arrivalUs, endUs));
    some(this.firstTokenS, seconds(arrivalUs, firstTokenUs));
    some(this.prefillS, seconds(scheduledUs, firstTokenUs));
    some(this.decodeS, seconds(firstTokenUs, endUs));
    some(this.inferenceS, seconds(scheduledUs, endUs));
    if (tokens > 1 && !request.several) some(this.perTokenS, seconds(firstTokenUs, endUs) / (tokens - 1));
    this.promptTokens += request.promptTokens;
    this.generationTokens += tokens;
    this.cachedTokens += request.cachedTokens;
    this.cached.observe(request.cachedTokens);
  }

  #report(): void {
    const newest = this.iterations.records?.take().at(-1);
    if (newest === undefined) return;
    this.last = newest;
    const { kvHere, completed, contextTokens } = newest;
    const { reported } = this;
    reported.completed += completed;
    reported.reused += kvHere.reused;
    reported.reusedFully += kvHere.reused - kvHere.reusedPartly;
    reported.reusedPartly += kvHere.reusedPartly;
    reported.missed += kvHere.missed;
    reported.generated += kvHere.generated;
    reported.copied += kvHere.copied;
    if (contextTokens > 0) this.batchTokens.observe(contextTokens);
    if (kvHere.reused + kvHere.missed > 0) this.reuseRate = kvHere.reused / (kvHere.reused + kvHere.missed);
  }
}
