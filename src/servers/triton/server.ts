/** Stands in for Triton Inference Server. HTTP, gRPC, metrics and the OpenAI front end have a port each. */

import { version } from "../../../package.json";
import { droppedLogLines } from "../../base/line-writer.ts";
import { hostAndPort, listenUrl } from "../../base/listen-url.ts";
import { LiveCell } from "../../base/live-value.ts";
import { printableLines } from "../../base/printable.ts";
import { PortError, UserError } from "../../base/start-errors.ts";
import type { EngineView } from "../../engine/interface/types.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { Listeners, Server } from "../../kernel/server.ts";
import { EVHTP, metricsListener } from "../../metrics/triton-listener.ts";
import { HeldMessages } from "../../wire/grpc/held-messages.ts";
import { GrpcServer } from "../../wire/grpc/server.ts";
import { WaitingBytes } from "../../wire/http/waiting-bytes.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import { Http2Server } from "../../wire/http2/server.ts";
import { readTls } from "../../wire/tls/certificates.ts";
import { seededLogprobs } from "../openai/request/logprobs.ts";
import type { OpenAiKernel, OpenAiServerConfig } from "../openai/request/openai-config.ts";
import type { LlmDeps } from "./backends/around.ts";
import { LlmCounts } from "./backends/counts.ts";
import { llmModels } from "./backends/models.ts";
import type { TritonServerConfig, TritonVersion } from "./config/triton-config.ts";
import { tritonMethods } from "./grpc/methods.ts";
import { tritonApp } from "./http/app.ts";
import type { KvCache, ServerAround } from "./inference/around.ts";
import { TritonFaults } from "./inference/faults.ts";
import { forwardPattern } from "./inference/forwarded.ts";
import { HeldBodies } from "./inference/held-bodies.ts";
import { TritonServer } from "./inference/server.ts";
import { TraceSettings } from "./inference/trace-settings.ts";
import { gpuFacts } from "./metrics/gpus.ts";
import { metricsPage } from "./metrics/page.ts";
import { Polling } from "./metrics/polled.ts";
import { hasInput, isDecoupled } from "./model-config/model-config.ts";
import { TRITON_VERSIONS } from "./model-config/versions.ts";
import { endsBy } from "./models/draining.ts";
import { SharedMemory } from "./tensors/shared-memory.ts";
import { deviceMemory } from "./triton-memory.ts";

/** The configuration that Triton reads. */
export interface TritonConfig extends OpenAiServerConfig {
  readonly triton: TritonServerConfig;
}

export const triton: Server<TritonConfig> = { options: ["openai", "triton"], start };

/** Log line of `main.cc` when `InferenceServer::Stop` in `server.cc` times out, before it exits with code 1. */
const EXPIRED = "failed to stop server: Internal - Exit timeout expired. Exiting immediately.";

async function start(kernel: Kernel<TritonConfig>): Promise<Listeners<TritonConfig>> {
  const { backend, chance, time, log } = kernel;
  const { triton: config, engine, metrics: shown } = kernel.config;
  const counts = new LlmCounts(() => time.clock.now(), engine.maxModelLen);
  const server = new TritonServer({
    config,
    targets: shown.triton.quantiles,
    clock: time.clock,
    turns: backend,
    backends: llmModels(llmAround(kernel, config.version), counts),
    memory: deviceMemory(kernel.config, config.memory, kernel.live.values.pace.get().timing),
    countsByGpu: shown.triton.gpu,
    epochMs: (us) => (time.epochUs + us) / 1000,
    random: () => chance.nextSeed() / 2 ** 32,
    log,
  });
  const forwards = forwardPattern("http", config.overHttp.forward, server.facts);
  await loaded(server, config, log);
  const around: ServerAround = {
    server,
    config,
    memory: new SharedMemory(),
    waiting: new WaitingBytes(WAITING_BYTES),
    bodies: new HeldBodies(backend),
    messages: new HeldMessages(HELD_BYTES),
    turns: backend,
    traces: new TraceSettings(),
    logging: new LiveCell(config.log),
    faults: new TritonFaults(kernel),
    forwards,
    kvCache: () => (server.facts.tellsLoad && counts.trtllm.size > 0 ? kvCacheOf(kernel) : null),
  };
  const app = tritonApp(around);
  const http = config.http && new HttpServer(app, { ...listenOptions(kernel, config.http), ...EVHTP });
  // Close all, because a listening server keeps the process alive.
  const closed = async () => void (await Promise.all([http?.stop(true), grpc?.stop(true), openai?.stop(true)]));
  let grpc: Http2Server | null = null;
  let openai: HttpServer | null = null;
  let metrics: HttpServer | null = null;
  const page = pageOf(kernel, around, counts);
  try {
    grpc = config.grpc && grpcServer(kernel, around);
    if (config.openai)
      openai = (await import("./triton-openai.ts")).openAiServer(
        kernel,
        around,
        page,
        listenOptions(kernel, config.openai),
      );
    metrics = metricsServer(kernel, page);
  } catch (why) {
    await closed();
    throw why;
  }
  const urlOf = (one: { readonly hostname: string; readonly port: number } | null) => one && listenUrl(one);
  const tritonUrl = urlOf(metrics);
  return {
    url: urlOf(http) ?? urlOf(openai) ?? "",
    tritonUrl,
    http2Url: null,
    otherUrls: { grpcUrl: urlOf(grpc), openaiUrl: urlOf(openai) },
    banner: (startedMs) =>
      bannerOf(config, server, { http: urlOf(http), grpc, metrics: tritonUrl, openai: urlOf(openai) }, startedMs),
    handle: (request) => app.handle(request),
    // The first page takes three times as long as the next.
    idleWork: metrics === null ? [] : [page],
    turnTo: () => Promise.reject(new Error("a Triton server does not begin anew behind its listeners")),
    async drain(untilUs) {
      return (await endsBy(untilUs, server, time.clock)) ? undefined : EXPIRED;
    },
    async stop(cut = false) {
      if (cut) await Promise.all([closed(), metrics?.stop(true)]);
      else {
        http?.turnAway();
        void openai?.stop();
        if (!server.facts.acceptsGrpcAtShutdown) void grpc?.stop();
      }
    },
  };
}

function kvCacheOf({ engines, config }: OpenAiKernel): KvCache {
  const all = engines.fleet.views("now");
  const sum = (read: (view: EngineView) => number) => all.reduce((total, view) => total + read(view), 0);
  return {
    usedBlocks: sum(({ blocksUsed }) => blocksUsed),
    blocks: sum(({ blocksUsable }) => blocksUsable),
    tokensPerBlock: config.engine.blockSize,
  };
}

/** Dependencies of the LLM models. All of them share one engine, as if they ran on one device. */
const llmAround = (
  { backend, text: { model, naturalLength }, chance: { nextSeed }, config, log }: OpenAiKernel,
  version: TritonVersion,
): LlmDeps => ({
  backend,
  text: model,
  naturalLength,
  nextSeed,
  logprobs: seededLogprobs(model.vocabulary.size),
  maxModelLen: config.engine.maxModelLen,
  blockSize: config.engine.blockSize,
  embeddingSize: config.openai.requests.embeddingDimensions ?? null,
  imageTokens: config.openai.requests.imageTokens ?? null,
  losesSamplingErrors: TRITON_VERSIONS[version].losesSamplingErrors,
  log,
});

async function loaded(server: TritonServer, config: TritonServerConfig, log: (line: string) => void): Promise<void> {
  const failures = await server.start().catch((error: Error) => {
    throw new UserError("--model-repository", error.message);
  });
  if (!config.exit.onError || failures.length > 1)
    for (const why of failures) log(`failed to load ${why.trim().replaceAll("\n", " ")}`);
  if (failures.length === 0 || !config.exit.onError) return;
  const [first = ""] = failures;
  const more = failures.length > 1 ? ` (and ${failures.length - 1} more)` : "";
  throw new UserError(
    null,
    `creating server: Internal - failed to load all models: ${first.trim().split("\n")[0]}${more}`,
  );
}

/** Largest message in bytes. The real server accepts 2 GiB. */
const MESSAGE_BYTES = 512 * 2 ** 20;
/** Most bytes of messages in all calls that are incomplete, being read or not answered yet. */
const HELD_BYTES = 640 * 2 ** 20;
/** Most bytes of answers that clients have not read, over all calls and streams. */
const WAITING_BYTES = 2 ** 30;

function grpcServer({ time: { clock }, backend }: OpenAiKernel, around: ServerAround): Http2Server {
  const { grpc, overGrpc } = around.config;
  const { tls: grpcTls, keepAlive } = overGrpc;
  const files = grpcTls && { certfile: grpcTls.cert, keyfile: grpcTls.key, caCerts: grpcTls.root };
  const tls = files && readTls({ ...files, certReqs: files.caCerts === null ? 0 : 2 });
  if (tls && "error" in tls)
    throw new UserError(
      null,
      tls.error.replace(/^--ssl-[a-z-]+/, (flag) => TLS_FLAGS[flag] ?? flag),
    );
  const limits = {
    clock,
    turns: around.turns,
    messageBytes: MESSAGE_BYTES,
    held: around.messages,
    waiting: around.waiting,
    broken: (why: unknown) => console.error(printableLines(Bun.inspect(why))),
  };
  const application = new GrpcServer(tritonMethods(around, clock), limits);
  try {
    return new Http2Server(application, {
      hostname: grpc!.host,
      port: grpc!.port,
      tls,
      reusePort: false,
      keepAlive: { ...keepAlive, idleMs: 0 },
      clock,
      catchUp: backend.catchUp,
      consumed: backend.consumed,
      crowded: backend.crowded,
    });
  } catch (why) {
    throw new PortError(why, "grpc");
  }
}

/** Maps vLLM's names of the TLS file options to Triton's. */
const TLS_FLAGS: Readonly<Record<string, string>> = {
  "--ssl-certfile": "--grpc-server-cert",
  "--ssl-keyfile": "--grpc-server-key",
  "--ssl-ca-certs": "--grpc-root-cert",
};

/** Returns the options that the ports of HTTP share. */
const listenOptions = ({ config, time, backend }: OpenAiKernel, at: { host: string; port: number }) => ({
  hostname: at.host,
  port: at.port,
  tls: undefined,
  reusePort: false,
  allowedHosts: config.listen.allowedHosts,
  clock: time.clock,
  catchUp: backend.catchUp,
  warn: () => {},
  epochSeconds: time.epochSeconds,
  consumed: backend.consumed,
  crowded: backend.crowded,
});

function metricsServer({ config, time }: OpenAiKernel, page: () => Promise<string>): HttpServer | null {
  const { listen: at } = config.metrics.triton;
  if (at === null) return null;
  try {
    return metricsListener(page, {
      hostname: at.host,
      port: at.port,
      reusePort: false,
      allowedHosts: config.listen.allowedHosts,
      clock: time.clock,
      epochSeconds: time.epochSeconds,
    });
  } catch (why) {
    throw new PortError(why);
  }
}

function pageOf(
  { config, live, time: { clock }, metrics: { renderer }, engines: { fleet } }: OpenAiKernel,
  { server, faults, config: own }: ServerAround,
  llm: LlmCounts,
): () => Promise<string> {
  const { triton: metrics } = config.metrics;
  const profile = findPreset(config.deployment.preset)!;
  const counts = () => server.cache?.counts ?? null;
  const { gpuBytes } = deviceMemory(config, own.memory, live.values.pace.get().timing);
  const facts = gpuFacts(profile.gpu, gpuBytes ?? profile.gpuMemoryBytes);
  const polling = new Polling(metrics.intervalMs, clock.now(), counts(), facts);
  const { namespacing } = own.repository;
  const { pinnedBytes } = own.memory;
  return async () => {
    const executor = llm.trtllm.size === 0 ? "" : Buffer.from(await renderer.page("trtllm")).toString();
    const nowUs = clock.now();
    const engineUs = fleet.views("now").reduce((all, { busyUs }) => all + busyUs, 0);
    const ofEngine = (gpu: number) => (gpu < profile.tp ? engineUs : 0);
    const uses = server.gpusAt(nowUs).map((use) => ({ ...use, busyUs: use.busyUs + ofEngine(use.gpu) }));
    const polled = polling.take(nowUs, metrics.cpu, counts(), metrics.gpu ? uses : null);
    const loop = fleet.latenessView();
    const gpus = metrics.gpu ? uses.map(({ gpu }) => gpu) : null;
    const told = { metrics, namespacing, pinnedBytes, llm, executor, loop, gpus, gpuFacts: facts };
    const around = { ...told, nowUs, faults: faults.acted, logLinesDropped: droppedLogLines() };
    return metricsPage(server, polled, around);
  };
}

function bannerOf(
  { version: stoodFor, repository: { folders: repositories } }: TritonServerConfig,
  server: TritonServer,
  at: { readonly grpc: Http2Server | null } & Readonly<Record<"http" | "metrics" | "openai", string | null>>,
  startedMs: number,
): string {
  const { http, grpc, metrics, openai } = at;
  const models = server.served.map(({ name, version: of }) => `${name}:${of}`);
  return [
    `understudy ${version} stands in for Triton ${server.facts.version} (--triton-version ${stoodFor})`,
    `  repository  ${repositories.join(", ")}`,
    `  models      ${models.length > 0 ? models.join(", ") : "none"}`,
    `  listening   ${http ?? openai ?? "nowhere"} after ${Math.round(startedMs)} ms`,
    ...(grpc === null ? [] : [`  grpc        ${hostAndPort(grpc)}`]),
    ...(metrics === null ? [] : [`  metrics     ${metrics}/metrics`]),
    ...(openai === null ? [] : [`  openai      ${openai}/v1`]),
    ...(http === null || models.length === 0 ? [] : [`  try         curl ${tryOut(server, http)}`]),
    ...(http === null && openai !== null ? [`  try         curl ${openai}/v1/models`] : []),
  ].join("\n");
}

/** Returns an example request to a model that generates text, if there is one. */
function tryOut(server: TritonServer, url: string): string {
  const all = server.served;
  const takes = (name: string) => all.find(({ config }) => hasInput(config, name));
  const at = (model: string) => `${url}/v2/models/${model}`;
  const [ensemble, vllm] = [takes("max_tokens"), takes("sampling_parameters")];
  const one = ensemble ?? vllm;
  if (one === undefined) return at(all[0]!.name);
  const asked = { text_input: "Hello", max_tokens: 20 };
  if (!isDecoupled(one.config)) return `${at(one.name)}/generate -d '${JSON.stringify(asked)}'`;
  return `-N ${at(one.name)}/generate_stream -d '${JSON.stringify({ ...asked, stream: true })}'`;
}
