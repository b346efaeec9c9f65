/** From what was said to a complete configuration: defaults of vLLM 0.33, of the preset's model and of its GPU. */

import { ROLES } from "../../app/config/roles.ts";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import type { DeploymentConfig } from "../../engine/config/deployment-config.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import { type KvCacheDtype, moreTokens } from "../../engine/config/kv-cache-dtypes.ts";
import { brokenRule, doubtful } from "../../engine/config/rules.ts";
import type { Timing } from "../../engine/config/step-times.ts";
import {
  type BatchDefaults,
  BLOCK_SIZE,
  batchDefaults,
  GPU_MEMORY_UTILIZATION,
  poolBlocks,
  TRUTH_REQUESTS,
} from "../../engine/timing/device-defaults.ts";
import { models } from "../../engine/timing/models.ts";
import { parseTiming, TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { DEFAULT_PRESET, findPreset, presetNames, presetsFor } from "../../engine/timing/presets.ts";
import type { Profile } from "../../engine/timing/profile.ts";
import type { ModelsConfig } from "../../kernel/kernel-config.ts";
import { parseFakeMetrics } from "../../metrics/config/fake-metrics.ts";
import type { MetricsConfig } from "../../metrics/config/metrics-config.ts";
import { CURRENT, PROFILES, profileName, showsHidden } from "../../metrics/config/metrics-profiles.ts";
import type { TruthConfig, TruthLogConfig } from "../../truth/truth-config.ts";
import type { ListenConfig } from "../../wire/http1/listen-config.ts";
import { bucketsOf, wrongBuckets } from "./buckets-option.ts";
import { frontLimitsConfig, tlsConfig } from "./front-limit-options.ts";
import type { Given, UsageError } from "./given.ts";
import { outputLengthsOf } from "./length-options.ts";
import { brokenLora, readLoraModules } from "./lora-modules.ts";
import { apiConfig, faultsConfig, logsConfig, queueConfig, textConfig } from "./owner-configs.ts";
import { chosenParsers } from "./parser-options.ts";
import type { ServeValues } from "./serve-options.ts";
import { stepConfig } from "./step-options.ts";
import { tritonMetrics } from "./triton-options.ts";
import { asTrtllmServe, mixedSchedulers, trtllmEngine, trtllmServeConfig } from "./trtllm-options.ts";

const DEFAULT_HOST = "127.0.0.1";

const SCALE_OUT = "--enable-scale-out: not built; /inference/v1/generate and the render and derender routes answer 501";

interface Made {
  readonly config: ServeConfig;
  readonly notices: readonly string[];
}

/** `said` is for messages: where each value came from. */
export function serveConfig(given: ServeValues, said: ReadonlyMap<string, Given>): Made | UsageError {
  const at = (option: string) => said.get(option)?.where ?? `the default ${option}`;
  const values = asTrtllmServe(given);
  const ofRole = trtllmServeConfig(values, at);
  if (ofRole !== null && "error" in ofRole) return ofRole;

  const chosen = chosenProfile(values, at);
  if ("error" in chosen) return chosen;
  const { named, timing, profile } = chosen;
  const model = models[profile.model]!;
  const steps = stepConfig(values, timing.kind !== "none", at);
  if ("error" in steps) return steps;
  const mixed = mixedSchedulers(values, at);
  if (mixed !== undefined) return { error: mixed };
  const sized = engineConfig(values, timing, profile, model.maxModelLen, isPresetAssumed(values, named));
  const engine = { ...sized.engine, ...steps };
  const lone = oneProcess(values, at);
  if (lone !== undefined) return { error: lone };
  const buckets = wrongBuckets(values["custom-histogram-buckets"]);
  if (buckets !== undefined) return { error: `${at("custom-histogram-buckets")}: ${buckets}` };
  const lengths = outputLengthsOf(values, at);
  if ("error" in lengths) return lengths;
  const broken = brokenRule(engine, at, ofRole !== null);
  if (broken !== undefined) return { error: broken };
  const parsers = chosenParsers(values, said);
  if ("error" in parsers) return parsers;

  const triton = tritonMetrics(
    values,
    values.host ?? DEFAULT_HOST,
    values.workers ?? 1,
    values["served-model-name"]?.[0],
  );
  if ("error" in triton) return triton;

  const tls = tlsConfig(values, at);
  if ("error" in tls) return tls;

  const role = values.role ?? "vllm";
  const name = values.model ?? profile.hub ?? model.hub;
  const served = modelsConfig(values, name);
  const listener = { ...listenConfig(values), ...tls, ...frontLimitsConfig(values) };
  const { listen } = triton.config;
  if (listen !== null && listen.port !== 0 && listen.port === listener.port && listen.host === listener.host)
    return { error: `${at("metrics-port")}: ${listen.port} is the server's own port; Triton's metrics take another` };
  const brokenAdapters = brokenLora(served.loraModules, engine.maxLoras > 0, served.servedModelNames);
  if (brokenAdapters !== undefined) return { error: `${at("lora-modules")}: ${brokenAdapters}` };
  const fakes = fakeMetrics(values);
  if (fakes !== null && "error" in fakes) return { error: `${at("fake-metrics")}: ${fakes.error}` };
  return {
    config: {
      role,
      seed: values.seed ?? null,
      engine,
      dataParallelSize: values["data-parallel-size"] ?? 1,
      workers: values.workers ?? 1,
      models: served,
      deployment: deploymentConfig(values, profile, named, sized.grownFrom),
      listen: listener,
      logs: logsConfig(values),
      metrics: { role: ROLES[role].metrics, ...shownMetrics(values), ...fakes, triton: triton.config },
      truth: truthConfig(values),
      text: textConfig(values, parsers, lengths.outputTokens),
      faults: faultsConfig(values),
      queue: queueConfig(values),
      openai: apiConfig(values),
      ...ofRole,
      shutdownTimeoutS: values["shutdown-timeout"] ?? 0,
      ignoredFlags: [],
    },
    notices: [...triton.notices, ...parsers.notices, ...noticesOf(values, engine, profile, name)],
  };
}

/** What is unusual about the engine. `name`: the model's. */
function noticesOf(values: ServeValues, engine: EngineConfig, profile: Profile, name: string): readonly string[] {
  const notices = [
    otherSize(values, profile),
    unknownPool(values),
    values["enable-scale-out"] ? SCALE_OUT : undefined,
    doubtful(engine),
    tooLong(engine, name, profile, models[profile.model]!.maxModelLen),
  ];
  return notices.filter((one) => one !== undefined);
}

/** The presets measured for the model, the step times, and the preset that gives all other defaults. */
interface ChosenProfile {
  readonly named: readonly Profile[];
  readonly timing: Timing;
  readonly profile: Profile;
}

function chosenProfile(values: ServeValues, at: (option: string) => string): ChosenProfile | UsageError {
  const named = values.model === undefined ? [] : presetsFor(values.model, values["tensor-parallel-size"]);
  const byName = named[0]?.name ?? DEFAULT_PRESET;
  const timing = parseTiming(values.timing ?? byName);
  if ("error" in timing) {
    const accepted = `it takes ${TIMING_FORMS} (${presetNames.join(", ")})`;
    return { error: `${at("timing")}: "${values.timing}": ${timing.error}; ${accepted}` };
  }
  return { named, timing, profile: findPreset(timing.kind === "table" ? timing.name : byName)! };
}

/** Why an option that is about one process cannot stand here, where there are several. */
function oneProcess({ workers = 1, ...values }: ServeValues, at: (option: string) => string): string | undefined {
  if (workers === 1) return undefined;
  const behind = `it cannot stand with --workers ${workers}`;
  if (values["admin-key"] !== undefined) return `${at("admin-key")}: changes one process; ${behind}`;
  return values["keep-bodies"] ? `${at("keep-bodies")}: keeps those of one process; ${behind}` : undefined;
}

const dtypeOf = (values: ServeValues): KvCacheDtype => values["kv-cache-dtype"] ?? "auto";

/** What the pool would be is not known, so it must not seem to follow. */
function unknownPool(values: ServeValues): string | undefined {
  const dtype = dtypeOf(values);
  if (moreTokens(dtype) !== null || values["num-gpu-blocks-override"] !== undefined) return undefined;
  return `--kv-cache-dtype ${dtype}: how much smaller it makes the KV cache depends on what no preset tells; the pool stays that of 16 bits (--num-gpu-blocks-override sets it)`;
}

/** True if neither the user nor the model's name chose the preset: its pool, GPU and length are then another model's. */
function isPresetAssumed({ model, timing }: ServeValues, named: readonly Profile[]): boolean {
  return model !== undefined && named.length === 0 && findPreset(timing?.split(":")[0] ?? "") === undefined;
}

/** `grownFrom`: the blocks of an assumed preset's pool that was too small for one request of full length; null: it is kept. */
interface SizedEngine {
  readonly engine: EngineConfig;
  readonly grownFrom: number | null;
}

/** `modelLen`: tokens of the preset's model. `isAssumed`: see `isPresetAssumed`; no refusal may rest on such a value. */
function engineConfig(
  values: ServeValues,
  timing: Timing,
  profile: Profile,
  modelLen: number,
  isAssumed: boolean,
): SizedEngine {
  const blockSize = values["block-size"] ?? BLOCK_SIZE;
  const utilization = values["gpu-memory-utilization"] ?? GPU_MEMORY_UTILIZATION;
  const numGpuBlocks =
    values["num-gpu-blocks-override"] ?? poolBlocks(profile, utilization, blockSize, moreTokens(dtypeOf(values)) ?? 1);
  const enableChunkedPrefill = values["enable-chunked-prefill"] ?? true;
  const ownLen = isAssumed ? assumedLength(values, modelLen, blockSize) : modelLen;
  const asked = values["max-model-len"] ?? ownLen;
  // auto: what the pool holds beside the null block, at most what the model can do.
  const maxModelLen = asked === -1 ? Math.max(1, Math.min(ownLen, (numGpuBlocks - 1) * blockSize)) : asked;
  const batch = batchSizes(values, gpuDefaults(values, profile, isAssumed), maxModelLen, enableChunkedPrefill);
  const engine: EngineConfig = {
    ...batch,
    maxModelLen,
    maxNumActiveSeqs: values["max-num-active-seqs"] ?? batch.maxNumSeqs,
    maxNumScheduledTokens: values["max-num-scheduled-tokens"] ?? batch.maxNumBatchedTokens,
    blockSize,
    numGpuBlocks,
    enablePrefixCaching: values["enable-prefix-caching"] ?? true,
    enableChunkedPrefill,
    asyncScheduling: values["async-scheduling"] ?? true,
    schedulingPolicy: values["scheduling-policy"] ?? "fcfs",
    vllm: {
      longPrefillTokenThreshold: values["long-prefill-token-threshold"] ?? 0,
      longPrefillTokenThresholdAdaptive: values["long-prefill-token-threshold-adaptive"] ?? false,
      prefillScheduleInterval: values["prefill-schedule-interval"] ?? 1,
      schedulerReserveFullIsl: values["scheduler-reserve-full-isl"] ?? true,
      watermark: values.watermark ?? 0,
    },
    maxLoras: values["enable-lora"] ? (values["max-loras"] ?? 1) : 0,
    seed: values.seed ?? 0,
    timing,
    ...bucketsOf(values["custom-histogram-buckets"]),
    ...(values.fix ? { fixes: values.fix } : {}),
    ...trtllmEngine(values, profile, ownLen, moreTokens(dtypeOf(values)) ?? 1),
  };
  const needed = blocksFor(engine);
  const isChosen = !isAssumed || values["num-gpu-blocks-override"] !== undefined;
  if (isChosen || engine.numGpuBlocks >= needed) return { engine, grownFrom: null };
  return { engine: { ...engine, numGpuBlocks: needed }, grownFrom: engine.numGpuBlocks };
}

/** Blocks that one request of full length needs, and the null block. */
function blocksFor({ maxModelLen, blockSize }: EngineConfig): number {
  return Math.ceil(maxModelLen / blockSize) + 1;
}

/** Tokens that a model of unknown length can do: as the assumed preset's model, unless a chosen limit says more or less. */
function assumedLength(values: ServeValues, modelLen: number, blockSize: number): number {
  const blocks = values["num-gpu-blocks-override"];
  const batched = values["enable-chunked-prefill"] === false ? values["max-num-batched-tokens"] : undefined;
  const most = Math.min(
    blocks === undefined ? Number.POSITIVE_INFINITY : Math.max(1, (blocks - 1) * blockSize),
    batched ?? Number.POSITIVE_INFINITY,
  );
  return Math.min(most, Math.max(modelLen, values["long-prefill-token-threshold"] ?? 0));
}

/** vLLM's defaults on the preset's GPU; on an assumed one they are raised to what chosen limits need. */
function gpuDefaults(values: ServeValues, profile: Profile, isAssumed: boolean): BatchDefaults {
  const byGpu = batchDefaults(profile);
  if (!isAssumed) return byGpu;
  const maxNumSeqs = Math.max(byGpu.maxNumSeqs, values["max-num-active-seqs"] ?? 0);
  const seqs = values["max-num-seqs"] ?? values["max-num-active-seqs"] ?? 0;
  const tokens = values["max-num-scheduled-tokens"] ?? 0;
  return { maxNumSeqs, maxNumBatchedTokens: Math.max(byGpu.maxNumBatchedTokens, seqs, tokens) };
}

/** The order matters and is vLLM's (`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`). */
function batchSizes(values: ServeValues, byGpu: BatchDefaults, maxModelLen: number, chunked: boolean): BatchDefaults {
  const seqs = values["max-num-seqs"] ?? byGpu.maxNumSeqs;
  const roomy = chunked ? byGpu.maxNumBatchedTokens : Math.max(byGpu.maxNumBatchedTokens, maxModelLen);
  const maxNumBatchedTokens = values["max-num-batched-tokens"] ?? Math.min(roomy, seqs * maxModelLen);
  return { maxNumBatchedTokens, maxNumSeqs: values["max-num-seqs"] ?? Math.min(seqs, maxNumBatchedTokens) };
}

function modelsConfig(values: ServeValues, model: string): ModelsConfig {
  return {
    model,
    servedModelNames: values["served-model-name"] ?? [model],
    loraModules: readLoraModules(values["lora-modules"] ?? []),
  };
}

function listenConfig(values: ServeValues): ListenConfig {
  return {
    host: values.host ?? DEFAULT_HOST,
    port: values.port ?? 8000,
    ...(values["http2-port"] === undefined ? {} : { http2Port: values["http2-port"] }),
    ...(values["stream-writes"] === undefined ? {} : { streamWrites: values["stream-writes"] }),
    ...(values["allowed-hosts"] === undefined ? {} : { allowedHosts: values["allowed-hosts"] }),
    maxBodyBytes: Math.ceil((values["max-body-mb"] ?? 64) * 2 ** 20),
  };
}

function shownMetrics(values: ServeValues): Pick<MetricsConfig, "profile" | "showHidden" | "bugs"> {
  const profile = PROFILES.find((one) => profileName(one) === values["metrics-profile"]) ?? CURRENT;
  const showHidden = showsHidden(profile, values["show-hidden-metrics-for-version"]);
  return { profile, showHidden, bugs: values.bug ?? [] };
}

/** null: all that metrics show is so. */
function fakeMetrics(values: ServeValues): Pick<MetricsConfig, "fakes"> | UsageError | null {
  const text = values["fake-metrics"];
  if (text === undefined) return null;
  const fakes = parseFakeMetrics(text);
  if ("error" in fakes) return fakes;
  return fakes.loras === null || values["enable-lora"] ? { fakes } : { error: "loras: needs --enable-lora" };
}

function truthConfig(values: ServeValues): TruthConfig {
  return {
    log: truthLog(values),
    requests: values["truth-requests"] ?? TRUTH_REQUESTS,
    keepBodies: values["keep-bodies"] ?? false,
  };
}

/** Shared with `replay`, which writes the same log. */
export function truthLog(values: ServeValues): TruthLogConfig | null {
  const file = values["truth-log"];
  if (file === undefined) return null;
  const maxBytes = Math.ceil((values["truth-log-max-mb"] ?? 256) * 2 ** 20);
  return { file, maxBytes, files: values["truth-log-files"] ?? 4, wire: values["truth-wire"] === true };
}

/** `grownFrom`: see `SizedEngine`. */
function deploymentConfig(
  values: ServeValues,
  profile: Profile,
  named: readonly Profile[],
  grownFrom: number | null,
): DeploymentConfig {
  const asked = values.model === undefined || findPreset(values.timing?.split(":")[0] ?? "") !== undefined;
  return {
    preset: profile.name,
    ...(asked ? {} : { presetsOfModel: named.map(({ name }) => name) }),
    ...(grownFrom === null ? {} : { poolGrownFrom: grownFrom }),
    gpuMemoryUtilization: values["gpu-memory-utilization"] ?? GPU_MEMORY_UTILIZATION,
    ...(values["kv-cache-dtype"] === undefined ? {} : { kvCacheDtype: values["kv-cache-dtype"] }),
    numGpuBlocksOverride: values["num-gpu-blocks-override"] ?? null,
  };
}

/** The flag chooses among presets and changes nothing of one, so it must not seem to. */
function otherSize({ "tensor-parallel-size": size }: ServeValues, { name, tp }: Profile): string | undefined {
  if (size === undefined || size === tp) return undefined;
  return `--tensor-parallel-size ${size}: no preset with so many GPUs is measured for this model; ${name}, taken instead, has ${tp}`;
}

/** vLLM reads the limit from the model and refuses; we know only the preset's model, so only that one is spoken of. */
function tooLong({ maxModelLen }: EngineConfig, name: string, profile: Profile, limit: number): string | undefined {
  if (maxModelLen <= limit || name !== (profile.hub ?? models[profile.model]!.hub)) return undefined;
  return `max-model-len (${maxModelLen}) is above what ${name} can do (${limit}); vLLM starts so only with VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`;
}
