/** Which routes has trtllm-serve? OpenAI's as it writes them, its statistics, and our own paths, all on one port. */
import { version } from "../../../package.json";
import type { TrtllmServeConfig } from "../../engine/config/trtllm.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import { timingText } from "../../engine/timing/timing-text.ts";
import type { Listeners, Role } from "../../kernel/role.ts";
import { metrics, OWN_METRICS } from "../../metrics/route.ts";
import type { RouteTable } from "../../wire/http/routes.ts";
import { adminRoutes } from "../openai/front/admin-routes.ts";
import { frontOptions, truthOf } from "../openai/front/front-options.ts";
import { onePort } from "../openai/front/one-port.ts";
import type { OpenAiParts, OpenAiServerConfig } from "../openai/request/openai-config.ts";
import { trtllmApp } from "./app.ts";
import { TRTLLM_VERSION } from "./own-routes.ts";

export const trtllm = (config: TrtllmServeConfig): Role<OpenAiServerConfig> => ({
  listen: (parts) => listen(parts, config),
});

async function listen(parts: OpenAiParts, own: TrtllmServeConfig): Promise<Listeners<OpenAiServerConfig>> {
  const { server, url, handle, turnTo } = onePort(parts, routesOf);
  return {
    url,
    handle,
    turnTo,
    tritonUrl: null,
    http2Url: null,
    banner: (startedMs) => bannerOf(parts, own, url, startedMs),
    stop: (cut = false) => server.stop(cut),
  };
}

function routesOf(parts: OpenAiParts): RouteTable {
  const { config, engines, live, admin, iterations, epochUs, identity } = parts;
  const options = frontOptions(parts, Object.fromEntries(OWN_METRICS.map((path) => [path, ["GET"]])));
  const facts = {
    config,
    epochUs,
    gpuBytes: identity.triton.gpuBytesHeld,
    blockBytes: findPreset(config.deployment.preset)!.kvBytesPerToken * config.engine.blockSize,
    pid: `${process.pid}`,
  };
  const table = trtllmApp({ options, iterations: iterations!, facts });
  const changes = admin && live.changing(admin, (pace) => engines.retime(pace), parts.openLaid);
  const own = [...metrics(parts.renderer, identity, OWN_METRICS), ...truthOf(parts)];
  return { ...table, routes: [...table.routes, ...(changes ? adminRoutes(options, changes) : []), ...own] };
}

function bannerOf({ config }: OpenAiParts, own: TrtllmServeConfig, url: string, startedMs: number): string {
  const { engine } = config;
  const body = JSON.stringify({
    model: config.models.servedModelNames[0],
    messages: [{ role: "user", content: "Hello" }],
    stream: true,
    max_tokens: 32,
  });
  const prometheus = own.returnPerfMetrics ? `, Prometheus on ${url}/prometheus/metrics` : "";
  return [
    `understudy ${version} stands in for trtllm-serve ${TRTLLM_VERSION} serving ${config.models.servedModelNames.join(", ")}`,
    `  scheduling  ${engine.trtllm!.capacitySchedulerPolicy}; max_batch_size ${engine.maxNumSeqs}, max_num_tokens ${engine.maxNumBatchedTokens}, max_seq_len ${engine.maxModelLen}`,
    `  KV cache    ${engine.numGpuBlocks - 1} blocks of ${engine.blockSize} tokens`,
    `  timing      ${timingText(engine)}`,
    `  metrics     JSON on ${url}/metrics${own.enableIterPerfStats ? "" : " (empty without --enable-iter-perf-stats)"}${prometheus}`,
    `  listening   ${url} after ${Math.round(startedMs)} ms`,
    `  try         curl -N ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '${body}'`,
  ].join("\n");
}
