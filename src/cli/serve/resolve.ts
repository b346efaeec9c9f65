/**
 * Collects the options of `understudy serve` from all sources. Flags win over the environment, the environment over the
 * configuration file, and the file over defaults.
 */

import { fileURLToPath } from "node:url";
import { ROLE_NAMES } from "../../app/config/roles.ts";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { jsonObjectIn } from "../../base/json-object.ts";
import { fromLlmD, LLM_D } from "../compat/llm-d.ts";
import type { Latencies } from "../compat/llm-d-live.ts";
import { parseConfigFile, roleInFile } from "../options/config-file.ts";
import { type Environment, type EnvironmentInput, fromEnvironment } from "../options/environment.ts";
import { type Flags, parseFlags } from "../options/flags.ts";
import { inRole, type OptionInput, optionInput, SERVE, type UsageError, wrongValue } from "../options/given.ts";
import { serveHelp, tritonHelp } from "../options/help.ts";
import { hasNoFront } from "../options/ignored-flags.ts";
import type { LandingRow } from "../options/landing.ts";
import { lookup } from "../options/lookup.ts";
import type { Option } from "../options/option.ts";
import { serveConfig } from "../options/serve-config.ts";
import { type ServeValues, serveOptions } from "../options/serve-options.ts";
import { deprecatedTritonMetrics } from "../options/triton-options.ts";
import { tritonConfigOf, tritonServerConfig } from "../options/triton-server-config.ts";
import { tritonServerOptions } from "../options/triton-server-options.ts";

export type ResolveResult =
  | {
      readonly config: ServeConfig;
      readonly values: ServeValues;
      readonly ignored: readonly string[];
      readonly notices: readonly string[];
      readonly options: ResolvedOptions;
      /** Latency keys of `--compat`, which may change while the server runs. Absent without `--compat`. */
      readonly latencies?: Latencies;
    }
  /** Line that the command prints on stderr before it exits with code 2. */
  | UsageError
  | { readonly help: string };

/** Options that the user set, for --print-config. */
export interface ResolvedOptions {
  readonly rows: Readonly<Record<string, LandingRow>>;
  readonly inputs: ReadonlyMap<string, OptionInput>;
  /** Builds the configuration from other options, with the same environment. */
  readonly rebuild: (inputs: ReadonlyMap<string, OptionInput>) => RebuiltConfig | UsageError;
}

type RebuiltConfig = Pick<
  Exclude<ResolveResult, UsageError | { readonly help: string }>,
  "config" | "notices" | "ignored"
>;

/** Text that --print-config shows in place of a secret. A server does not start with it. */
export const MASK = "<masked>";

/**
 * Builds the configuration. `argv`: the arguments after `serve`. `readFile`: returns the text of the configuration file, or
 * throws. Reads no other file.
 */
export function resolveServeConfig(
  argv: readonly string[],
  env: Environment,
  readFile: (path: string) => string,
): ResolveResult {
  const resolved = resolveSources(argv, env, readingOnce(readFile));
  if (!("options" in resolved) || printsConfig(resolved.options)) return resolved;
  const { rows, inputs } = resolved.options;
  const masked = [...inputs].find(([name, { texts }]) => rows[name]?.secret && texts.includes(MASK));
  if (masked === undefined) return resolved;
  return { error: `${masked[1].where}: is masked; write the secret here, or set it by a flag` };
}

/** Keeps the texts of files, because a pipe such as /dev/stdin can be read only once. */
function readingOnce(readFile: (path: string) => string): (path: string) => string {
  const texts = new Map<string, string>();
  return (path) => {
    const text = texts.get(path) ?? readFile(path);
    texts.set(path, text);
    return text;
  };
}

/** Reports whether the command prints the configuration in place of a start. */
export const printsConfig = ({ inputs }: ResolvedOptions) => inputs.get("print-config")?.texts[0] === "true";

function resolveSources(argv: readonly string[], env: Environment, readFile: (path: string) => string): ResolveResult {
  const compat = takeCompat(argv, env.UNDERSTUDY_COMPAT);
  if ("error" in compat) return compat;
  if (compat.name !== undefined) return resolveCompat(compat.rest, env, readFile);
  const role = takeFlag(argv, "role", env.UNDERSTUDY_ROLE);
  const source =
    role.value === undefined
      ? roleInConfigFile(takeFlag(argv, "config", env.UNDERSTUDY_CONFIG).value, readFile)
      : { role: role.value, where: role.given ? "--role" : "UNDERSTUDY_ROLE" };
  if (source?.role === "triton") return resolveTriton(role.rest, env, readFile);
  if (source !== undefined && !ROLE_NAMES.some((name) => name === source.role))
    return wrongValue(source.where, ROLE_NAMES.join(" or "), source.role);
  const flags = parseFlags(argv, inRole({ ...SERVE, abbreviates: true }, role.value));
  if ("error" in flags) return flags;
  if (flags.help !== undefined) return { help: serveHelp(flags.help) };
  return resolveFlags(flags, env, readFile);
}

/**
 * Finds a flag before the other flags are parsed, because it changes their meaning. In the result, `given` is true if the flag
 * is present, even without a value.
 */
export function takeFlag(argv: readonly string[], flag: string, fromEnv: string | undefined) {
  const at = argv.findIndex((token) => token === `--${flag}` || token.startsWith(`--${flag}=`));
  const attached = at >= 0 ? argv[at]!.slice(flag.length + 2) : "";
  const value = at < 0 ? fromEnv : attached === "" ? argv[at + 1] : attached.slice(1);
  const taken = at < 0 ? 0 : attached === "" ? 2 : 1;
  return { given: at >= 0, value, rest: at < 0 ? argv : argv.toSpliced(at, taken) };
}

function takeCompat(
  argv: readonly string[],
  fromEnv: string | undefined,
): { readonly name: typeof LLM_D | undefined; readonly rest: readonly string[] } | UsageError {
  const { given: said, value: name, rest } = takeFlag(argv, "compat", fromEnv);
  if (said && name === undefined) return { error: `--compat: needs a value: ${LLM_D}` };
  if (name !== undefined && name !== LLM_D) return wrongValue(said ? "--compat" : "UNDERSTUDY_COMPAT", LLM_D, name);
  return { name, rest };
}

function resolveTriton(argv: readonly string[], env: Environment, readFile: (path: string) => string): ResolveResult {
  const help = argv.find((token) => /^(--help(=.*)?|-h)$/.test(token));
  if (help !== undefined) return { help: tritonHelp(help.split("=")[1]) };
  const { given, value, rest } = takeFlag(argv, "config", env.UNDERSTUDY_CONFIG);
  if (given && !value) return { error: "--config: needs a value: the path of a YAML file" };
  const where = given ? "--config" : "UNDERSTUDY_CONFIG";
  const file = readConfigFile(value === undefined ? undefined : { texts: [value], where }, readFile, "triton");
  if ("error" in file) return file;
  const made = tritonServerConfig(rest, SHIPPED_MODELS, [...merge(file).values()]);
  if ("error" in made) return made;
  const { inputs, ...resolved } = made;
  const rebuild = (others: ReadonlyMap<string, OptionInput>) => tritonConfigOf(others, SHIPPED_MODELS, made.ignored);
  return { ...resolved, options: { rows: tritonServerOptions, inputs, rebuild } };
}

/** Returns the role that the configuration file sets. Returns undefined if it sets none or cannot be read. */
function roleInConfigFile(path: string | undefined, readFile: (path: string) => string) {
  try {
    return path === undefined ? undefined : roleInFile(readFile(path), path);
  } catch {
    return undefined;
  }
}

/** Path of the model repository that is served if no flag names a repository. */
export const SHIPPED_MODELS = fileURLToPath(new URL("../../servers/triton/shipped", import.meta.url));

function resolveCompat(argv: readonly string[], env: Environment, readFile: (path: string) => string): ResolveResult {
  const translated = fromLlmD(argv, env, readFile);
  if ("error" in translated) return translated;
  const { flags, defaults, startupUs, latencies, notices } = translated;
  if (flags.help !== undefined) return { help: serveHelp(flags.help) };
  const resolved = resolveFlags(flags, env, readFile, defaults);
  if ("error" in resolved) return resolved;
  // llm-d-inference-sim accepts requests that load adapters, whatever its options are.
  const unasked = env.VLLM_ALLOW_RUNTIME_LORA_UPDATING === undefined;
  const { workers, openai, models, faults, listen } = resolved.config;
  const loads = unasked && workers === 1 ? { runtimeLora: true } : {};
  const lost = `--workers ${workers}: adapters cannot be loaded by request, because only one process would load them`;
  return {
    ...resolved,
    latencies,
    config: {
      ...resolved.config,
      models: { ...models, ...loads },
      openai: {
        ...openai,
        front: { ...openai.front, ...podHeaders(env, listen.port), readiness: { afterUs: startupUs } },
      },
      faults: { ...faults, errorHeader: true },
    },
    notices: [...notices, ...(unasked && workers > 1 ? [lost] : []), ...resolved.notices],
  };
}

/** Returns response headers with the pod's name, from which tests of a router see which pod answered. */
function podHeaders({ POD_NAME: pod, POD_NAMESPACE: namespace }: Environment, port: number) {
  const headers = {
    ...(pod ? { "x-inference-pod": pod, "x-inference-port": String(port) } : {}),
    ...(namespace ? { "x-inference-namespace": namespace } : {}),
  };
  return pod || namespace ? { podHeaders: headers } : {};
}

/**
 * Builds the configuration from parsed flags, for all commands that take these options. `defaults`: values that count only if
 * the option is set nowhere else.
 */
export function resolveFlags(
  flags: Flags,
  env: Environment,
  readFile: (path: string) => string,
  defaults: readonly OptionInput[] = [],
): Exclude<ResolveResult, { readonly help: string }> {
  const environment = fromEnvironment(env);
  if ("error" in environment) return environment;
  const spoken = withModel(flags);
  if ("error" in spoken) return spoken;

  const said = merge(environment.given, spoken);
  const file = readConfigFile(said.get("config"), readFile, said.get("role")?.texts[0]);
  if ("error" in file) return file;
  const compat = file.find(({ name }) => name === "compat");
  if (compat) return { error: `${compat.where}: must be set by --compat or UNDERSTUDY_COMPAT, not in a file` };
  const all = merge(defaults, environment.fallback, file, [...said.values()]);
  const built = configOf(all, environment);
  if ("error" in built) return built;
  const rebuild = (inputs: ReadonlyMap<string, OptionInput>) => configOf(inputs, environment);
  return { ...built, options: { rows: serveOptions, inputs: all, rebuild } };
}

function configOf(all: ReadonlyMap<string, OptionInput>, environment: EnvironmentInput) {
  const values = readValues(all);
  if ("error" in values) return values;
  const made = serveConfig(values.values, all);
  if ("error" in made) return made;
  if (environment.runtimeLora && made.config.workers > 1)
    return {
      error: `${all.get("workers")!.where}: must be 1 with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, as vLLM's --api-server-count, because only one process would load an adapter`,
    };
  const { models, openai } = made.config;
  const deprecation = deprecatedTritonMetrics(values.values);
  const { role } = made.config;
  const ignored = [...all.values()]
    .filter((input) => input.ignored || hasNoFront(input.name, role))
    .map((input) => `--${input.name}`);
  return {
    config: {
      ...made.config,
      models: { ...models, ...(environment.runtimeLora ? { runtimeLora: true } : {}) },
      openai: { ...openai, front: { ...openai.front, devMode: environment.devMode } },
    },
    values: values.values,
    ignored,
    notices: [...environment.notices, ...made.notices, ...(deprecation === undefined ? [] : [deprecation])],
  };
}

/** Returns the flags with the positional argument added as the value of --model. */
function withModel({ given: said, positional }: Flags): readonly OptionInput[] | UsageError {
  const [model, second] = positional;
  if (second !== undefined) return { error: `"${second}": unexpected argument; only one model is served, "${model}"` };
  if (model === undefined) return said;
  const flag = said.find((input) => input.name === "model");
  if (flag) return { error: `${flag.where}: the model is given twice, as "${flag.texts[0]}" and as "${model}"` };
  return [...said, optionInput(lookup("model")!, [model], "model")];
}

/** Merges the options of several sources by name. A later source wins. Two lists, or keyed objects, in the same source are joined. */
function merge(...layers: readonly (readonly OptionInput[])[]): Map<string, OptionInput> {
  const merged = new Map<string, OptionInput>();
  for (const layer of layers) {
    const here = new Map<string, OptionInput>();
    for (const input of layer) {
      const before = here.get(input.name);
      const option = lookup(input.name)?.option;
      if (before === undefined || option === undefined) here.set(input.name, input);
      else if (option.arity === "list") here.set(input.name, { ...input, texts: [...before.texts, ...input.texts] });
      else here.set(input.name, option.isKeyed ? { ...input, texts: joinedObjects(before.texts, input.texts) } : input);
    }
    for (const [name, input] of here) merged.set(name, input);
  }
  return merged;
}

/** Joins two JSON objects, of which the second wins. A text that is no object replaces the other, so that it is refused later. */
function joinedObjects([before]: readonly string[], [after]: readonly string[]): readonly string[] {
  const [first, second] = [jsonObjectIn(before ?? ""), jsonObjectIn(after ?? "")];
  if (first === null || second === null) return [(first === null ? before : after) ?? ""];
  return [JSON.stringify({ ...first, ...second })];
}

function readConfigFile(
  config: Pick<OptionInput, "texts" | "where"> | undefined,
  readFile: (path: string) => string,
  role: string | undefined,
): readonly OptionInput[] | UsageError {
  const path = config?.texts[0];
  if (config === undefined || path === undefined) return [];
  try {
    return parseConfigFile(readFile(path), path, role);
  } catch (failure) {
    const why = failure instanceof Error && "code" in failure ? String(failure.code) : String(failure);
    return { error: `${config.where}: cannot read "${path}" (${why})` };
  }
}

function readValues(all: ReadonlyMap<string, OptionInput>): { readonly values: ServeValues } | UsageError {
  const values: Record<string, unknown> = {};
  for (const [name, option] of Object.entries<Option>(serveOptions)) {
    const input = all.get(name);
    if (input === undefined) continue;
    const value = option.read(input.texts);
    if (value === undefined) return wrongValue(input.where, option.accepts, input.texts.join(" "));
    values[name] = value;
  }
  return { values };
}
