/** What would the metrics port show of a replay's server? Families of its core alone: no language model is replayed here. */

import { Lateness } from "../../../engine/lateness/lateness.ts";
import type { TritonMetricsConfig } from "../../../metrics/config/triton-metrics.ts";
import { wattsOf } from "../../../metrics/ensemble/gpu-power.ts";
import { LlmCounts } from "../../../servers/triton/backends/counts.ts";
import type { TritonServer } from "../../../servers/triton/inference/server.ts";
import { metricsPage } from "../../../servers/triton/metrics/page.ts";
import { Polling } from "../../../servers/triton/metrics/polled.ts";

export interface ShownReplay {
  readonly metrics: TritonMetricsConfig;
  readonly pinnedBytes: number;
  /** The GPU's name and memory, as a preset has them. */
  readonly gpu: string;
  readonly gpuBytes: number;
}

/** At simulated time `nowUs`; the machine's own processor and memory are not the replay's and are not shown. */
export function replayPage(server: TritonServer, shown: ShownReplay, nowUs: number): string {
  const { metrics, pinnedBytes, gpu, gpuBytes } = shown;
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
