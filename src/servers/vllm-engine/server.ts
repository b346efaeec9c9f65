/**
 * An engine behind a real front end of vLLM: joins it, runs its requests, and sends the tokens. Metrics, the truth and the admin
 * have a port of their own.
 */
import { version } from "../../../package.json";
import { findPreset } from "../../engine/timing/presets.ts";
import { timingText } from "../../engine/timing/timing-text.ts";
import { onePort } from "../../kernel/one-port.ts";
import type { Listeners, Server } from "../../kernel/server.ts";
import { routes } from "../../wire/http/routes.ts";
import { ourRoutes } from "../openai/front/our-routes.ts";
import { EngineAdapters } from "./adapters.ts";
import type { EngineKernel, VllmEngineConfig } from "./engine-kernel.ts";
import { slownessOf } from "./faults/front-faults.ts";
import { FrontLink } from "./front-link.ts";
import { type Registration, registrationMessage } from "./messages/handshake.ts";
import { LAYOUTS } from "./messages/layouts.ts";
import { RunningRequests } from "./running.ts";

/** Line of the messages' layouts, and the version that the front end shows. */
const VLLM_VERSION = "0.33.0";

export const vllmEngine: Server<VllmEngineConfig> = { options: ["openai", "join"], start };

async function start(kernel: EngineKernel): Promise<Listeners<VllmEngineConfig>> {
  let current = attached(kernel);
  const isReady = () => current.every(({ link }) => link.isReady);
  const port = onePort(kernel, (next) => ({
    routes: [
      ...ourRoutes(next),
      ...routes({
        "GET /health": ({ front, request }) => front.answer(request, isReady() ? 200 : 503, {}, ""),
      }),
    ],
  }));
  return {
    ...port,
    banner: (startedMs) => bannerOf(kernel, port.url, startedMs),
    async turnTo(next) {
      const before = current;
      current = attached(next);
      await Promise.all([...before.map(({ link }) => link.close()), port.turnTo(next)]);
    },
    async stop(cut) {
      for (const { requests } of current) requests.abortAll();
      await Promise.all([...current.map(({ link }) => link.close()), port.stop(cut)]);
    },
  };
}

/** One engine of this process, as the front end sees it. */
interface AttachedEngine {
  readonly link: FrontLink;
  readonly requests: RunningRequests;
}

/** Joins the front end with all engines of a kernel. Each has its own rank. */
function attached(kernel: EngineKernel): readonly AttachedEngine[] {
  const { config, engines, metrics } = kernel;
  const adapters = new EngineAdapters(config.models.loraModules, (names) => metrics.renderer.name(names));
  engines.adapters.byNumber = (number) => adapters.byNumber(number);
  const attachedEngines = Array.from({ length: config.dataParallelSize }, (_, index) =>
    attachedEngine(kernel, adapters, index),
  );
  engines.fleet.moved = () => {
    for (const { requests } of attachedEngines) requests.moved();
  };
  return attachedEngines;
}

function attachedEngine(kernel: EngineKernel, adapters: EngineAdapters, index: number): AttachedEngine {
  const { config, engines, live, log, time } = kernel;
  const layout = LAYOUTS["0.33"];
  const timer = {
    nowUs: () => time.clock.now(),
    after: (us: number, act: () => void) => time.clock.at(time.clock.now() + us, act),
  };
  const join = { ...config.join, rank: config.join.rank + index };
  const slowness = slownessOf(join.faults ?? [], join.rank);
  if (slowness !== 1) {
    engines.fleet.slow(index, slowness);
    engines.fleet.retime(live.values.pace.get());
  }
  const requests = new RunningRequests(kernel, layout, { index, rank: join.rank }, adapters, {
    send: (client, frames) => link.send(client, frames),
    isReady: () => link.isReady,
    hasCoordinator: () => link.hasCoordinator,
    leave(isDead) {
      log(`rank ${join.rank} leaves the front end, as a fault orders`);
      link.leave(isDead);
    },
  });
  const link = new FrontLink(join, timer, {
    layout,
    log,
    registration: (statsAddress) => registrationMessage(registrationOf(kernel, join.rank, statsAddress)),
    begins: () => requests.begins(),
    received: (message) => requests.received(message),
    refused: (request) => requests.refused(request),
    lost() {
      if (requests.count > 0)
        log(`the front end has left; ${requests.count} requests of rank ${join.rank} are aborted`);
      requests.abortAll();
    },
  });
  return { link, requests };
}

function registrationOf({ config, engines }: EngineKernel, rank: number, statsAddress: string | null): Registration {
  const { engine, deployment, join, models, dataParallelSize } = config;
  const { tp } = findPreset(deployment.preset)!;
  const tokens = (engine.numGpuBlocks - 1) * engine.blockSize;
  return {
    max_model_len: engine.maxModelLen,
    num_gpu_blocks: engine.numGpuBlocks,
    block_size: engine.blockSize,
    dp_stats_address: statsAddress,
    dtype: "bfloat16",
    vllm_version: VLLM_VERSION,
    world_size: tp,
    data_parallel_size: join.rank + dataParallelSize,
    tensor_parallel_size: tp,
    pipeline_parallel_size: 1,
    decode_context_parallel_size: 1,
    data_parallel_rank: rank,
    max_num_seqs: engine.maxNumSeqs,
    max_num_batched_tokens: engine.maxNumBatchedTokens,
    instance_id: `understudy-${models.servedModelNames[0]}-${rank}`,
    supports_lora: engine.maxLoras > 0,
    max_loras: engine.maxLoras,
    mamba_block_size: null,
    kv_cache_size_tokens: tokens,
    kv_cache_max_concurrency: tokens / engine.maxModelLen,
    kv_events_config: engines.kvEvents === null ? null : { ...engines.kvEvents.sources[rank] },
    weight_transfer_backend: null,
    enable_sleep_mode: true,
    supports_draft_weight_updates: false,
    effective_attention_block_size: engine.blockSize,
    coord_store_port: 0,
    coordinator_input_address: null,
    coordinator_output_address: null,
  };
}

function bannerOf({ config, live }: EngineKernel, url: string, startedMs: number): string {
  const { engine, join, dataParallelSize } = config;
  const last = join.rank + dataParallelSize - 1;
  const [what, as] = last === join.rank ? ["an engine", `rank ${last}`] : ["engines", `ranks ${join.rank} to ${last}`];
  return [
    `understudy ${version} is ${what} for a front end of vLLM ${VLLM_VERSION}, as ${as}`,
    `  joins       ${join.address}:${join.rpcPort}, and waits until a front end is there`,
    `  scheduling  max_num_seqs ${engine.maxNumSeqs}, max_num_batched_tokens ${engine.maxNumBatchedTokens}, max_model_len ${engine.maxModelLen}`,
    `  KV cache    ${engine.numGpuBlocks - 1} blocks of ${engine.blockSize} tokens`,
    `  timing      ${timingText(live.values.pace.get())}`,
    `  metrics     ${url}/metrics after ${Math.round(startedMs)} ms`,
  ].join("\n");
}
