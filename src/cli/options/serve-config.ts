/**
 * Builds the complete configuration of a server from the values of options. Other folders fill in the defaults of the parts
 * that they define.
 */

import { ROLES, TRTLLM_SERVE, VLLM_ENGINE } from "../../app/config/roles.ts";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import type { DeploymentConfig } from "../../engine/config/deployment-config.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import { moreTokens } from "../../engine/config/kv-cache-dtypes.ts";
import { brokenRule, doubtful } from "../../engine/config/rules.ts";
import type { Timing } from "../../engine/config/step-times.ts";
import { completeEngine, type EngineBase, type EngineInput } from "../../engine/timing/complete-engine.ts";
import { models } from "../../engine/timing/models.ts";
import { parseTiming, TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { DEFAULT_PRESET, findPreset, presetNames, presetsFor } from "../../engine/timing/presets.ts";
import type { Profile } from "../../engine/timing/profile.ts";
import { logsOf, type ModelsConfig } from "../../kernel/kernel-config.ts";
import { type KvEventsConfig, publishes, wrongKvEventsSource, wrongRanks } from "../../kv-events/config.ts";
import { parseFakeMetrics } from "../../metrics/config/fake-metrics.ts";
import type { MetricsConfig } from "../../metrics/config/metrics-config.ts";
import { showsHidden } from "../../metrics/config/metrics-profiles.ts";
import { completeTritonMetrics } from "../../metrics/config/triton-metrics.ts";
import { completeCors, type OpenAiConfig } from "../../servers/openai/request/openai-config.ts";
import { datasetOf, type TextConfig } from "../../text/text-config.ts";
import { truthLogOf } from "../../truth/truth-config.ts";
import { completeListen, type ListenConfig } from "../../wire/http1/listen-config.ts";
import { wrongBuckets } from "./buckets-option.ts";
import { wrongTls } from "./front-limit-options.ts";
import type { OptionInput, UsageError } from "./given.ts";
import { type LandedConfig, landed } from "./landing.ts";
import { doubleLengths } from "./length-options.ts";
import { brokenLora } from "./lora-modules.ts";
import { type ChosenParsers, chosenParsers } from "./parser-options.ts";
import { type ServeValues, serveOptions } from "./serve-options.ts";
import { strayingNothing } from "./step-options.ts";
import { tritonSettings } from "./triton-options.ts";
import { asTrtllmServe, mixedSchedulers, unfitForRole } from "./trtllm-options.ts";

const SCALE_OUT = "--enable-scale-out: not built; /inference/v1/generate and the render and derender routes answer 501";

const NO_CACHE = "--kv-events-config: there are no events, because the prefix cache is off";

interface CompleteConfig {
  readonly config: ServeConfig;
  readonly notices: readonly string[];
}

/**
 * Builds the configuration, or returns the first error. `said`: for each option the place where the user set it, for messages.
 */
export function serveConfig(given: ServeValues, said: ReadonlyMap<string, OptionInput>): CompleteConfig | UsageError {
  const at = (option: string) => said.get(option)?.where ?? `the default ${option}`;
  const values = asTrtllmServe(given);
  const unfit = unfitForRole(values, at);
  if (unfit !== undefined) return { error: unfit };
  const chosen = chosenProfile(values, at);
  if ("error" in chosen) return chosen;
  const { timing, profile } = chosen;
  const parts = landed(serveOptions, values);
  const { engine, grownFrom } = completeEngine(givenEngine(values, parts, timing), engineBase(values, parts, chosen));
  const wrong =
    (timing.kind === "none" ? strayingNothing(values, at) : undefined) ??
    mixedSchedulers(values, at) ??
    oneProcess(values, at) ??
    wrongPorts(values, parts, at) ??
    wrongBuckets(values["custom-histogram-buckets"], at("custom-histogram-buckets")) ??
    wrongKvEvents(values, parts, at("kv-events-config")) ??
    doubleLengths(values, at) ??
    brokenRule(engine, at, values.role === TRTLLM_SERVE);
  if (wrong !== undefined) return { error: wrong };
  const parsers = chosenParsers(values, said);
  if ("error" in parsers) return parsers;
  const settings = tritonSettings(values, parts.workers);
  if ("error" in settings) return settings;
  const models = {
    ...modelsConfig(parts.models, profile),
    // The front end loads adapters while the engine runs.
    ...(parts.role === VLLM_ENGINE && engine.maxLoras > 0 ? { runtimeLora: true } : {}),
  };
  const listen = completeListen(parts.listen, values["self-signed-certs"] ?? false);
  const metrics = metricsConfig(values, parts, settings, listen.host);
  const clash =
    wrongTls(values, at) ??
    portTaken(listen, metrics.triton.listen, at("metrics-port")) ??
    brokenLora(models.loraModules, engine.maxLoras > 0, models.servedModelNames, at("lora-modules"));
  if (clash !== undefined) return { error: clash };
  const fakes = fakeMetrics(values);
  if (fakes !== null && "error" in fakes) return { error: `${at("fake-metrics")}: ${fakes.error}` };
  const { iterations, join, kvEvents, ...others } = parts;
  return {
    config: {
      ...others,
      engine,
      models,
      deployment: deploymentConfig(values, parts.deployment, chosen, grownFrom),
      listen,
      logs: logsOf(parts.logs, values["uvicorn-log-level"]),
      metrics: { ...metrics, ...fakes },
      truth: { ...parts.truth, log: truthLogOf(parts.truth.log) },
      text: textConfig(values, parts.text, parsers),
      faults: parts.faults ?? {},
      queue: parts.queue ?? {},
      openai: openAiConfig(parts.openai),
      ...(parts.role === TRTLLM_SERVE ? { iterations } : {}),
      ...(parts.role === VLLM_ENGINE ? { join } : {}),
      ...(publishes(kvEvents) ? { kvEvents: kvEventsOf(parts) } : {}),
    },
    notices: [...settings.notices, ...parsers.notices, ...noticesOf(values, engine, profile, models.model)],
  };
}

type LandedServe = LandedConfig<typeof serveOptions>;

const givenEngine = (values: ServeValues, { seed, engine }: LandedServe, timing: Timing): EngineInput => ({
  ...engine,
  timing,
  seed: seed ?? 0,
  maxLoras: values["enable-lora"] ? engine.maxLoras : 0,
});

const engineBase = (values: ServeValues, parts: LandedServe, { named, profile }: ChosenProfile): EngineBase => ({
  deployment: parts.deployment,
  profile,
  modelLen: models[profile.model]!.maxModelLen,
  isAssumed: isPresetAssumed(values, named),
  freeGpuMemoryFraction: values["kv-cache-free-gpu-mem-fraction"],
});

function modelsConfig(given: LandedServe["models"], { hub, model: preset }: Profile): ModelsConfig {
  const { model = hub ?? models[preset]!.hub } = given;
  return { model, servedModelNames: [model], ...given };
}

function metricsConfig(
  values: ServeValues,
  { role, metrics, models }: LandedServe,
  { notices: _, ...settings }: Exclude<ReturnType<typeof tritonSettings>, UsageError>,
  host: string,
): MetricsConfig {
  return {
    role: ROLES[role].metrics,
    ...metrics,
    showHidden: showsHidden(metrics.profile, values["show-hidden-metrics-for-version"]),
    triton: completeTritonMetrics(metrics.triton, settings, { host, ensemble: models.servedModelNames?.[0] }),
  };
}

/** Returns an error message if Triton's metrics and the server are set to the same port, else undefined. */
function portTaken(
  server: ListenConfig,
  metrics: MetricsConfig["triton"]["listen"],
  where: string,
): string | undefined {
  if (metrics === null || metrics.port === 0) return undefined;
  if (metrics.port !== server.port || metrics.host !== server.host) return undefined;
  return `${where}: ${metrics.port} is the port of the server; Triton's metrics need another`;
}

function textConfig(
  { answers }: ServeValues,
  { dataset: given, ...text }: LandedServe["text"],
  { toolFormat, reasoningFormat }: ChosenParsers,
): TextConfig {
  const dataset = datasetOf(given);
  return {
    ...text,
    ...(dataset ? { dataset } : {}),
    ...(answers === "echo" ? { echo: true } : {}),
    ...(answers === "prompted-json" ? { promptedJson: true } : {}),
    ...(reasoningFormat === undefined ? {} : { reasoningParser: reasoningFormat }),
    ...(toolFormat === undefined ? {} : { toolCallParser: toolFormat }),
  };
}

function openAiConfig({ front: { cors, ...front }, ...others }: LandedServe["openai"]): OpenAiConfig {
  return { ...others, front: { ...front, ...(cors ? { cors: completeCors(cors) } : {}), devMode: false } };
}

/** Returns warnings about the configuration of the engine. `name`: name of the model. */
function noticesOf(values: ServeValues, engine: EngineConfig, profile: Profile, name: string): readonly string[] {
  const notices = [
    otherSize(values, profile),
    unknownPool(values),
    values["enable-scale-out"] ? SCALE_OUT : undefined,
    values["kv-events-config"]?.enable_kv_cache_events === true && !engine.enablePrefixCaching ? NO_CACHE : undefined,
    doubtful(engine),
    tooLong(engine, name, profile, models[profile.model]!.maxModelLen),
  ];
  return notices.filter((notice) => notice !== undefined);
}

/** The presets that were measured for the model, the step times, and the preset from which all other defaults come. */
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
    const accepted = `must be ${TIMING_FORMS} (${presetNames.join(", ")})`;
    return { error: `${at("timing")}: "${values.timing}": ${timing.error}; ${accepted}` };
  }
  return { named, timing, profile: findPreset(timing.kind === "table" ? timing.name : byName)! };
}

const kvEventsOf = ({ kvEvents, role, join }: LandedServe): KvEventsConfig => ({
  ...kvEvents,
  firstRank: role === VLLM_ENGINE ? join.rank : 0,
});

/** Returns an error message if --kv-events-config cannot be used, else undefined. */
function wrongKvEvents(values: ServeValues, parts: LandedServe, where: string): string | undefined {
  const wrong =
    wrongKvEventsSource(values["kv-events-config"] ?? {}) ??
    wrongRanks(parts.kvEvents.source, kvEventsOf(parts).firstRank, parts.dataParallelSize * parts.workers);
  return wrong === undefined ? undefined : `${where}: ${wrong}`;
}

/** Largest number of ports, because each has several threads. */
const PORTS_MOST = 16;
const MULTI_PORT = "data-parallel-multi-port-external-lb";

/** Returns an error message if the ranks cannot each have a port, else undefined. */
function wrongPorts(values: ServeValues, parts: LandedServe, at: (option: string) => string): string | undefined {
  const { dataParallelSize: ranks, workers, role, listen } = parts;
  if (!values[MULTI_PORT]) return undefined;
  if (ranks < 2 || ranks > PORTS_MOST) return `${at(MULTI_PORT)}: needs --data-parallel-size from 2 to ${PORTS_MOST}`;
  if (role === VLLM_ENGINE) return `${at(MULTI_PORT)}: not possible with --role ${role}, which joins a front end`;
  const others = (["http2-port", "metrics-port", "truth-log"] as const).find((name) => values[name] !== undefined);
  if (others !== undefined) return `${at(others)}: not possible with --${MULTI_PORT}, because ranks cannot share it`;
  if (workers > 1) return `${at("workers")}: not possible with --${MULTI_PORT}`;
  const { port } = completeListen(listen, false);
  const last = port === 0 ? 0 : port + ranks - 1;
  return last > 65_535 ? `${at("port")}: ${port} plus rank ${ranks - 1} is above port 65535` : undefined;
}

/** Returns an error message if --workers is set together with an option that affects only one process, else undefined. */
function oneProcess({ workers = 1, ...values }: ServeValues, at: (option: string) => string): string | undefined {
  if (workers === 1) return undefined;
  const conflict = `not possible with --workers ${workers}`;
  if (values["admin-key"] !== undefined) return `${at("admin-key")}: changes one process only; ${conflict}`;
  return values["keep-bodies"] ? `${at("keep-bodies")}: keeps the bodies of one process only; ${conflict}` : undefined;
}

/**
 * Warns about a type of the KV cache whose size is unknown. The pool keeps its size, although the size of vLLM's pool would
 * change.
 */
function unknownPool(values: ServeValues): string | undefined {
  const dtype = values["kv-cache-dtype"] ?? "auto";
  if (moreTokens(dtype) !== null || values["num-gpu-blocks-override"] !== undefined) return undefined;
  return `--kv-cache-dtype ${dtype}: its effect on the size of the KV cache is unknown; the pool has the size for 16 bits (--num-gpu-blocks-override sets another)`;
}

/**
 * Reports whether the preset is only the default, chosen neither by the user nor by the name of the model. Its KV pool, GPU and
 * maximum length then belong to another model.
 */
function isPresetAssumed({ model, timing }: ServeValues, named: readonly Profile[]): boolean {
  return model !== undefined && named.length === 0 && findPreset(timing?.split(":")[0] ?? "") === undefined;
}

/** Reads --fake-metrics. Returns null if no metric is fake. */
function fakeMetrics(values: ServeValues): Pick<MetricsConfig, "fakes"> | UsageError | null {
  const text = values["fake-metrics"];
  if (text === undefined) return null;
  const fakes = parseFakeMetrics(text);
  if ("error" in fakes) return fakes;
  return fakes.loras === null || values["enable-lora"] ? { fakes } : { error: "loras: needs --enable-lora" };
}

/** Builds the part of the configuration about the deployment. `grownFrom`: see `SizedEngine`. */
function deploymentConfig(
  { model, timing }: ServeValues,
  given: LandedServe["deployment"],
  { named, profile }: ChosenProfile,
  grownFrom: number | null,
): DeploymentConfig {
  const isByModel = model !== undefined && findPreset(timing?.split(":")[0] ?? "") === undefined;
  return {
    preset: profile.name,
    ...(isByModel ? { presetsOfModel: named.map(({ name }) => name) } : {}),
    ...(grownFrom === null ? {} : { poolGrownFrom: grownFrom }),
    ...given,
  };
}

/** Warns if the number of GPUs of the preset differs from --tensor-parallel-size, which can only choose among the presets. */
function otherSize({ "tensor-parallel-size": size }: ServeValues, { name, tp }: Profile): string | undefined {
  if (size === undefined || size === tp) return undefined;
  return `--tensor-parallel-size ${size}: no preset with this many GPUs exists for the model; using ${name} with ${tp}`;
}

/**
 * Warns if max-model-len is above the limit of the preset's model, which vLLM would refuse. The limits of other models are
 * unknown.
 */
function tooLong({ maxModelLen }: EngineConfig, name: string, profile: Profile, limit: number): string | undefined {
  if (maxModelLen <= limit || name !== (profile.hub ?? models[profile.model]!.hub)) return undefined;
  return `max-model-len (${maxModelLen}) is above the limit of ${name} (${limit}); vLLM only starts this way with VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`;
}
