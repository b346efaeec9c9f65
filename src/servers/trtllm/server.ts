/**
 * Stands in for trtllm-serve. The routes of OpenAI's API, statistics in the format of trtllm-serve, and Understudy's own routes
 * share one port.
 */

import { version } from "../../../package.json";
import type { IterationsConfig } from "../../engine/config/trtllm.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import { timingText } from "../../engine/timing/timing-text.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { onePort } from "../../kernel/one-port.ts";
import type { Listeners, Server } from "../../kernel/server.ts";
import { OWN_METRICS } from "../../metrics/route.ts";
import type { RouteTable } from "../../wire/http/routes.ts";
import { ourMethods, ourRoutes } from "../openai/front/our-routes.ts";
import type { OpenAiServerConfig } from "../openai/request/openai-config.ts";
import { trtllmApp } from "./app.ts";
import { TRTLLM_VERSION } from "./own-routes.ts";

/** The configuration of a server of this kind. */
export interface TrtllmServerConfig extends OpenAiServerConfig {
  readonly iterations: IterationsConfig;
}

export const trtllm: Server<TrtllmServerConfig> = { options: ["openai", "iterations"], start };

async function start(kernel: Kernel<TrtllmServerConfig>): Promise<Listeners<TrtllmServerConfig>> {
  const port = onePort(kernel, routesOf);
  return { ...port, banner: (startedMs) => bannerOf(kernel, port.url, startedMs) };
}

const METRICS = Object.fromEntries(OWN_METRICS.map((path) => [path, ["GET"]]));

function routesOf(kernel: Kernel<TrtllmServerConfig>): RouteTable {
  const { config, time, metrics } = kernel;
  const facts = {
    config,
    epochUs: time.epochUs,
    gpuBytes: metrics.identity.triton.gpuBytesHeld,
    blockBytes: findPreset(config.deployment.preset)!.kvBytesPerToken * config.engine.blockSize,
    pid: `${process.pid}`,
  };
  const table = trtllmApp(kernel, facts, ourMethods(kernel, METRICS));
  return { ...table, routes: [...table.routes, ...ourRoutes(kernel, METRICS)] };
}

function bannerOf({ config, live }: Kernel<TrtllmServerConfig>, url: string, startedMs: number): string {
  const { engine } = config;
  const body = JSON.stringify({
    model: config.models.servedModelNames[0],
    messages: [{ role: "user", content: "Hello" }],
    stream: true,
    max_tokens: 32,
  });
  const prometheus = config.iterations.returnPerfMetrics ? `, Prometheus on ${url}/prometheus/metrics` : "";
  return [
    `understudy ${version} stands in for trtllm-serve ${TRTLLM_VERSION} serving ${config.models.servedModelNames.join(", ")}`,
    `  scheduling  ${engine.trtllm!.capacitySchedulerPolicy}; max_batch_size ${engine.maxNumSeqs}, max_num_tokens ${engine.maxNumBatchedTokens}, max_seq_len ${engine.maxModelLen}`,
    `  KV cache    ${engine.numGpuBlocks - 1} blocks of ${engine.blockSize} tokens`,
    `  timing      ${timingText(live.values.pace.get())}`,
    `  metrics     JSON on ${url}/metrics${config.iterations.enableIterPerfStats ? "" : " (empty without --enable-iter-perf-stats)"}${prometheus}`,
    `  listening   ${url} after ${Math.round(startedMs)} ms`,
    `  try         curl -N ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '${body}'`,
  ].join("\n");
}
