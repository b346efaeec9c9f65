/** Simulates benchmarks of an engine with known step times: runs of closed and open loops, in the format of each tool. */

import { seeded } from "../../../src/base/random.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { configOf, promptOf, type RecordingReceiver, release, World } from "../../engine/simulated-engine.ts";

export interface BenchmarkOptions {
  readonly config: Partial<EngineConfig>;
  readonly requests: number;
  /** Concurrency of a closed loop. Else `rate` requests per second, at random times. */
  readonly concurrency?: number;
  readonly rate?: number;
  readonly input: readonly [least: number, most: number];
  readonly output: readonly [least: number, most: number];
  readonly seed?: number;
  /** Maximum delay that a network adds to each time, evenly drawn from 0. */
  readonly networkUs?: number;
}

interface RequestTimes {
  readonly sentUs: number;
  readonly tokenUs: readonly number[];
  readonly inputTokens: number;
}

/** Runs a benchmark on a simulated server. Its results are those of a client that receives each token separately. */
export class Benchmark {
  readonly seen: readonly RequestTimes[];

  constructor(readonly options: BenchmarkOptions) {
    const { config, requests, concurrency, rate = 1, input, output, seed = 1, networkUs = 0 } = options;
    const random = seeded(seed);
    const share = () => random() / 2 ** 32;
    const draw = ([least, most]: readonly [number, number]) => least + Math.floor(share() * (most - least + 1));
    const world = new World(
      configOf({
        maxModelLen: 20_000,
        maxNumSeqs: 256,
        maxNumActiveSeqs: 256,
        maxNumBatchedTokens: 8192,
        maxNumScheduledTokens: 8192,
        numGpuBlocks: 20_000,
        ...config,
      }),
      { module: release },
    );
    const receivers: RecordingReceiver[] = [];
    const { clock } = world;
    const submit = (): RecordingReceiver => {
      const stream = receivers.length;
      const lengths = { promptIds: promptOf(draw(input), stream), maxTokens: draw(output) };
      const request = world.submit({ ...lengths, seed: stream, ignoreEos: true })!;
      receivers.push(request);
      return request;
    };
    if (concurrency !== undefined) {
      const next = (): void => {
        if (receivers.length >= requests) return;
        const request = submit();
        // The client learns about the end of the request a moment later.
        request.afterwards = () => request.finish !== null && clock.at(clock.now() + 100, next);
      };
      for (let i = 0; i < concurrency; i++) next();
    } else {
      let us = 0;
      for (let i = 0; i < requests; i++) {
        us += Math.round((-Math.log(1 - share()) / rate) * 1e6);
        clock.at(us, submit);
      }
    }
    clock.drain();
    this.seen = receivers.map(({ generation, tokenUs }) => ({
      sentUs: generation.arrivalUs,
      tokenUs: tokenUs.map((at) => at + share() * networkUs),
      inputTokens: generation.promptIds.length,
    }));
  }

  /** Calls `look` for each request, with the times of its first and its last token. Returns the results. */
  #each<T>(look: (request: RequestTimes, first: number, last: number) => T): T[] {
    return this.seen.map((request) => look(request, request.tokenUs[0]!, request.tokenUs.at(-1)!));
  }

  get ttftUs(): number {
    return mean(this.#each(({ sentUs }, first) => first - sentUs));
  }

  get tpotUs(): number {
    return mean(this.#each(({ tokenUs }, first, last) => (last - first) / (tokenUs.length - 1)));
  }

  get #durationS(): number {
    return Math.max(...this.#each((_, __, last) => last)) / 1e6;
  }

  vllm(isDetailed: boolean, more: object = {}): string {
    const { concurrency = null, rate } = this.options;
    const gaps = ({ tokenUs }: RequestTimes) => tokenUs.slice(1).map((at, i) => (at - tokenUs[i]!) / 1e6);
    const detailed = {
      input_lens: this.seen.map(({ inputTokens }) => inputTokens),
      output_lens: this.seen.map(({ tokenUs }) => tokenUs.length),
      ttfts: this.#each(({ sentUs }, first) => (first - sentUs) / 1e6),
      itls: this.seen.map(gaps),
      start_times: this.seen.map(({ sentUs }) => 1000 + sentUs / 1e6),
    };
    return JSON.stringify({
      backend: "openai-chat",
      request_rate: rate ?? "inf",
      max_concurrency: concurrency,
      duration: this.#durationS,
      completed: this.seen.length,
      total_input_tokens: sum(detailed.input_lens),
      total_output_tokens: sum(detailed.output_lens),
      ...(isDetailed ? detailed : {}),
      mean_ttft_ms: this.ttftUs / 1000,
      mean_tpot_ms: this.tpotUs / 1000,
      ...more,
    });
  }

  aiperf(): string {
    const { concurrency, rate } = this.options;
    const ms = (us: number) => ({ unit: "ms", avg: us / 1000 });
    return JSON.stringify({
      schema_version: "1.0",
      request_count: { unit: "requests", avg: this.seen.length },
      benchmark_duration: { unit: "sec", avg: this.#durationS },
      input_sequence_length: lengths(this.seen.map(({ inputTokens }) => inputTokens)),
      output_sequence_length: lengths(this.seen.map(({ tokenUs }) => tokenUs.length)),
      time_to_first_token: ms(this.ttftUs),
      inter_token_latency: ms(this.tpotUs),
      input_config: { loadgen: rate === undefined ? { concurrency } : { request_rate: rate } },
    });
  }

  /** Returns records like those of `understudy proxy --record`, by file name. `usage`: whether clients asked for it. */
  records(usage = true): Record<string, string> {
    const files = this.seen.map(({ sentUs, tokenUs, inputTokens }, at) => {
      const chunk = (json: object) => `data: ${JSON.stringify(json)}\n\n`;
      const chunkOf = (choice: object) => chunk({ choices: [{ index: 0, ...choice }] });
      const last = tokenUs.length - 1;
      const events: (readonly [number, string])[] = [
        [tokenUs[0]! - sentUs, chunkOf({ delta: { role: "assistant", content: "" }, finish_reason: null })],
        ...tokenUs.map((us, i) => {
          const finish_reason = i === last ? "length" : null;
          return [us - sentUs, chunkOf({ delta: { content: "x" }, finish_reason })] as const;
        }),
      ];
      const counts = { prompt_tokens: inputTokens, completion_tokens: tokenUs.length };
      if (usage) events.push([tokenUs[last]! - sentUs, chunk({ choices: [], usage: counts })]);
      events.push([tokenUs[last]! - sentUs, "data: [DONE]\n\n"]);
      const headers = { "content-type": "text/event-stream; charset=utf-8" };
      const recorded = { status: 200, headers, broken: false, arrival_us: 1.7e15 + sentUs, events };
      // A text of `inputTokens` words, each of one token.
      const prompt = { equals: " a".repeat(inputTokens) };
      const match = { path: "/v1/completions", body: { prompt }, nth: 1 };
      return [`${String(at).padStart(6, "0")}.json`, JSON.stringify({ match, answer: { recorded } })] as const;
    });
    return Object.fromEntries(files);
  }

  aiperfRecords(): string {
    const ms = (us: number) => ({ unit: "ms", value: us / 1000 });
    const lines = this.#each(({ sentUs, tokenUs, inputTokens }, first, last) => ({
      metadata: {
        request_start_ns: Math.round(1e15 + sentUs * 1000),
        benchmark_phase: "profiling",
        was_cancelled: false,
      },
      metrics: {
        time_to_first_token: ms(first - sentUs),
        request_latency: ms(last - sentUs),
        inter_token_latency: ms((last - first) / (tokenUs.length - 1)),
        input_sequence_length: { unit: "tokens", value: inputTokens },
        output_sequence_length: { unit: "tokens", value: tokenUs.length },
      },
      error: null,
    }));
    return lines.map((line) => JSON.stringify(line)).join("\n");
  }
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const lengths = (values: readonly number[]) => {
  const avg = mean(values);
  return { unit: "tokens", avg, std: Math.sqrt(mean(values.map((value) => (value - avg) ** 2))) };
};
const mean = (values: readonly number[]) => sum(values) / values.length;
