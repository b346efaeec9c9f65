/** The metrics page of a Triton replay. It has only the families of Triton's core, because language models are not replayed here. */

import { Lateness } from "../../../engine/lateness/lateness.ts";
import type { TritonMetricsConfig } from "../../../metrics/config/triton-metrics.ts";
import { wattsOf } from "../../../metrics/ensemble/gpu-power.ts";
import { LlmCounts } from "../../../servers/triton/backends/counts.ts";
import type { TritonServer } from "../../../servers/triton/inference/server.ts";
import { metricsPage } from "../../../servers/triton/metrics/page.ts";
import { Polling } from "../../../servers/triton/metrics/polled.ts";

export interface ReplayPageInput {
  readonly metrics: TritonMetricsConfig;
  readonly pinnedBytes: number;
  /** Name of the preset's GPU. */
  readonly gpu: string;
  readonly gpuBytes: number;
}

/** Returns the page at simulated time `nowUs`, without metrics of this machine's CPU and memory, which are not simulated. */
export function replayPage(server: TritonServer, input: ReplayPageInput, nowUs: number): string {
  const { metrics, pinnedBytes, gpu, gpuBytes } = input;
  const gpuFacts = { totalBytes: gpuBytes, watts: wattsOf(gpu) };
  const cache = server.cache?.counts ?? null;
  const uses = server.gpusAt(nowUs);
  const polled = new Polling(metrics.intervalMs, 0, cache, gpuFacts).take(nowUs, false, cache, uses);
  return metricsPage(server, polled, {
    ...{ metrics: { ...metrics, cpu: false }, namespacing: false, pinnedBytes, nowUs, gpuFacts, executor: "" },
    faults: new Map(),
    logLinesDropped: 0,
    llm: new LlmCounts(() => nowUs, 0),
    gpus: metrics.gpu ? uses.map((use) => use.gpu) : null,
    loop: new Lateness(),
  });
}
