/**
 * Builds the configuration of `serve --role triton` from its flags, which are read like those of `tritonserver`. Each error is
 * one line.
 */
import { ROLES } from "../../app/config/roles.ts";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { completeTriton, hostOf } from "../../servers/triton/config/complete.ts";
import {
  TRITON_VERSION_NAMES,
  type TritonGrpcTls,
  type TritonServerConfig,
  type TritonVersion,
} from "../../servers/triton/config/triton-config.ts";
import { type OptionInput, optionInput, type UsageError, wrongValue } from "./given.ts";
import { landed } from "./landing.ts";
import { type FoundOption, nearest } from "./lookup.ts";
import { freeText, ownValue } from "./option.ts";
import { serveConfig } from "./serve-config.ts";
import type { ServeValues } from "./serve-options.ts";
import { TRITON_ALIASES, TRITON_FRONT_END_IGNORED, TRITON_IGNORED, TRITON_IGNORED_SWITCHES } from "./triton-ignored.ts";
import { loneOpenAiFlag, tritonOpenAiOptions } from "./triton-openai-options.ts";
import {
  isEngineOption,
  type TritonRow,
  type TritonServerValues,
  tritonServerOptions,
} from "./triton-server-options.ts";
import { readResource, readRestricted } from "./triton-values.ts";

const METRICS_PORT = 8002;
const LEAST_CACHE_BYTES = 1024;

interface TritonConfigResult {
  /** Options that the user set, by name. */
  readonly inputs: ReadonlyMap<string, OptionInput>;
  readonly config: ServeConfig;
  /** Values of the options that the command itself uses, in this role as in every other. */
  readonly values: { readonly "ready-file"?: string; readonly "exit-with-parent"?: true };
  readonly ignored: readonly string[];
  readonly notices: readonly string[];
}

const rows: Readonly<Record<string, TritonRow>> = tritonServerOptions;

/**
 * Builds the configuration. `argv`: the arguments after `serve`, without `--role` and `--config`. `shipped`: path of the model
 * repository that is served if no flag names one. `file`: options of the configuration file; a flag wins over the file.
 */
export function tritonServerConfig(
  argv: readonly string[],
  shipped: string,
  file: readonly OptionInput[] = [],
): TritonConfigResult | UsageError {
  const version = versionIn(argv) ?? versionNamed(file.find(({ name }) => name === "triton-version")?.texts[0]);
  const said = readArgv(argv, version ?? "2.73");
  if ("error" in said) return said;
  const inputs = new Map(file.filter(({ ignored }) => !ignored).map((input) => [input.name, input]));
  for (const [name, texts] of said.given)
    inputs.set(name, optionInput({ name, ignored: false }, valuesMeant(rows[name]!, texts), `--${name}`));
  const ignored = [...file.filter((input) => input.ignored).map(({ name }) => `--${name}`), ...said.ignored];
  return tritonConfigOf(inputs, shipped, ignored);
}

/** Builds the configuration from the options of all sources. `ignored`: flags without effect. */
export function tritonConfigOf(
  inputs: ReadonlyMap<string, OptionInput>,
  shipped: string,
  ignored: readonly string[],
): TritonConfigResult | UsageError {
  const version = versionNamed(inputs.get("triton-version")?.texts[0]) ?? "2.73";
  const values: Record<string, unknown> = {};
  for (const [name, { texts, where }] of inputs) {
    const option = rows[name];
    if (option === undefined) continue;
    if (option.notIn?.includes(version)) return { error: `${where}: --triton-version ${version} does not have it` };
    const value = option.read(texts);
    if (value === undefined) return wrongValue(where, option.accepts, texts.join(" "));
    values[name] = value;
  }
  const made = configOf(values as TritonServerValues, shipped);
  if ("error" in made) return made;
  const { "ready-file": readyFile, "exit-with-parent": exits } = values as TritonServerValues;
  const starting = {
    ...(readyFile === undefined ? {} : { "ready-file": readyFile }),
    ...(exits ? { "exit-with-parent": true as const } : {}),
  };
  return { ...made, inputs, values: starting, ignored };
}

/** Returns the values that count: all of a list, else the last. */
const valuesMeant = ({ arity }: TritonRow, texts: readonly string[]) => (arity === "list" ? texts : texts.slice(-1));

/**
 * Finds the option that a key of the configuration file names. The key `role` counts as an option, which other code has read.
 * `where`: place of the key, for messages.
 */
export function tritonKey(key: string, where: string): FoundOption | UsageError {
  const written = key.replaceAll("_", "-");
  const name = TRITON_ALIASES.get(written) ?? written;
  if (Object.hasOwn(rows, name)) return { name, option: rows[name]!, ignored: false, sets: true };
  const isIgnored = TRITON_IGNORED.includes(name);
  if (isIgnored || name === "role") return { name, option: freeText("TEXT", "a text"), ignored: isIgnored, sets: true };
  const near = nearest(name, [...Object.keys(rows), ...TRITON_IGNORED]);
  const hint = near.length > 0 ? `; did you mean ${near.join(" or ")}?` : "";
  return { error: `${where}: unknown key${hint} (understudy serve --role triton --help lists the options)` };
}

function readArgv(argv: readonly string[], version: TritonVersion) {
  const given = new Map<string, string[]>();
  const ignored: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const token = argv[at]!;
    const [, written = "", attached] = /^--?([^=]*)(?:=(.*))?$/s.exec(token) ?? [];
    const spelled = token.startsWith("--") ? completed(written, version, argv) : written;
    if (typeof spelled === "object") return spelled;
    const name = TRITON_ALIASES.get(spelled) ?? spelled;
    if (name === "") return { error: `Unexpected argument: ${token}` };
    const known = Object.hasOwn(rows, name) && !rows[name]!.notIn?.includes(version);
    if (!known && !TRITON_IGNORED.includes(name)) return unrecognized(name, argv);
    const isSwitch = rows[name]?.arity === "switch" || TRITON_IGNORED_SWITCHES.includes(name);
    const value = attached ?? (isSwitch ? "true" : argv[++at]);
    if (value === undefined) return { error: `option '--${name}' requires an argument` };
    if (known) given.set(name, [...(given.get(name) ?? []), value]);
    else ignored.push(`--${name}`);
  }
  return { given, ignored };
}

const versionNamed = (text: string | undefined): TritonVersion | undefined =>
  TRITON_VERSION_NAMES.find((name) => name === text);

const versionIn = (argv: readonly string[]) => versionNamed(/--triton-version[= ](\S+)/.exec(argv.join(" "))?.[1]);

/**
 * Completes an abbreviated flag as tritonserver does with getopt_long (`command_line_parser.cc`, `TritonParser::Parse`): an
 * exact name wins, else the text must be the prefix of a single flag. Flags that tritonserver does not have are not completed.
 */
function completed(written: string, version: TritonVersion, argv: readonly string[]): string | UsageError {
  const isKnown = Object.hasOwn(rows, written) || TRITON_IGNORED.includes(written) || TRITON_ALIASES.has(written);
  if (isKnown || written === "") return written;
  const own = Object.keys(rows).filter((name) => !rows[name]!.ours && !rows[name]!.notIn?.includes(version));
  const found = [...own, ...TRITON_IGNORED, ...TRITON_ALIASES.keys()]
    .filter((name) => !isFrontEnds(name) || hasFrontEnd(argv))
    .filter((name) => name.startsWith(written));
  const options = new Set(found.map((name) => TRITON_ALIASES.get(name) ?? name));
  if (options.size <= 1) return found[0] ?? written;
  const possibilities = found.map((name) => `'--${name}'`).join(" ");
  return { error: `option '--${written}' is ambiguous; possibilities: ${possibilities}` };
}

/** Reports whether a flag belongs to the OpenAI front end, which in Triton is a separate program. */
function isFrontEnds(name: string): boolean {
  return Object.hasOwn(tritonOpenAiOptions, name) || TRITON_FRONT_END_IGNORED.includes(name);
}

const hasFrontEnd = (argv: readonly string[]) => argv.some((token) => /^--openai(=|$)/.test(token));

/** Flags of other servers, each with the flag of tritonserver that has the same meaning. */
const EQUIVALENTS: Readonly<Record<string, string>> = {
  address: "http-address",
  host: "http-address",
  model: "model-repository",
  port: "http-port",
};

/** Returns the error message of getopt for an unknown flag, followed by a suggestion. */
function unrecognized(name: string, argv: readonly string[]): UsageError {
  const meant = name === "port" && hasFrontEnd(argv) ? "openai-port" : ownValue(EQUIVALENTS, name);
  const names = meant === undefined ? nearest(name, [...Object.keys(rows), ...TRITON_IGNORED]) : [meant];
  const near = names.map((flag) => `--${flag}`);
  const hint = Object.hasOwn(rows, name)
    ? " (it exists in another --triton-version)"
    : near.length > 0
      ? `; did you mean ${near.join(" or ")}?`
      : " (understudy serve --role triton --help lists the flags)";
  return { error: `unrecognized option '--${name}'${hint}` };
}

function configOf(
  values: TritonServerValues,
  shipped: string,
): Omit<TritonConfigResult, "ignored" | "inputs" | "values"> | UsageError {
  const wrong = wrongStart(values);
  if (wrong !== undefined) return { error: wrong };
  const cacheBytes = cacheSize(values);
  if (typeof cacheBytes === "object" && cacheBytes !== null) return cacheBytes;
  const restrictedHttp = restrictedBy(values, "http-restricted-api");
  if ("error" in restrictedHttp) return restrictedHttp;
  const rateLimit = rateLimitOf(values);
  if (rateLimit !== null && "error" in rateLimit) return rateLimit;
  const restrictedGrpc = restrictedBy(values, "grpc-restricted-protocol");
  if ("error" in restrictedGrpc) return restrictedGrpc;
  const tls = grpcTlsOf(values);
  if (tls !== null && "error" in tls) return tls;
  const lone = loneOpenAiFlag(values);
  if (lone !== undefined) {
    const meant = ownValue(EQUIVALENTS, lone);
    return { error: `--${lone}: needs --openai${meant === undefined ? "" : `; without it, use --${meant}`}` };
  }
  const given = landed(tritonServerOptions, values).triton;
  const hasOpenAi = values.openai === true;
  const isOpen = !hasOpenAi || values["enable-kserve-frontends"] === true;
  const triton = completeTriton(given, {
    shipped,
    hasHttp: isOpen && values["allow-http"] !== false,
    hasGrpc: isOpen && values["allow-grpc"] !== false,
    hasOpenAi,
    cacheBytes,
    restrictedHttp,
    restrictedGrpc,
    tls,
    rateLimit,
  });
  const made = serveConfig(sharedValues(values, triton, hostOf(given)), engineFlags(values));
  if ("error" in made) return made;
  const unwritten =
    values["log-file"] === undefined
      ? []
      : ["--log-file: nothing is written to the file; only /v2/logging shows its name"];
  return { config: asTriton(made.config, triton), notices: [...made.notices, ...unwritten] };
}

/** Returns Triton's error message if the options about loading models contradict each other, else undefined. */
function wrongStart(values: TritonServerValues): string | undefined {
  const { "load-model": names, "model-control-mode": control } = values;
  if (names && control !== "explicit")
    return "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.";
  if (names?.includes("*") && names.length > 1)
    return "Wildcard model name '*' must be the ONLY startup model if specified at all.";
  return undefined;
}

/** Returns the values for the parts of the configuration that all roles have, by the option names of `serve`. */
function sharedValues(
  values: TritonServerValues,
  { http, exit, openai }: TritonServerConfig,
  host: string,
): ServeValues {
  const shared = Object.entries(values).filter(([name]) => {
    const { lands, feeds = lands } = rows[name]!;
    return feeds !== undefined && !feeds.startsWith("triton.");
  });
  return {
    ...Object.fromEntries(shared),
    host,
    port: http?.port ?? 0,
    "disable-log-stats": true,
    "shutdown-timeout": exit.timeoutS,
    "metrics-port": openai === null ? (values["metrics-port"] ?? METRICS_PORT) : undefined,
  } as ServeValues;
}

/** Returns the place where the user set each engine option, for messages. */
function engineFlags(values: TritonServerValues): ReadonlyMap<string, OptionInput> {
  const names = Object.keys(values).filter(isEngineOption);
  return new Map(names.map((name) => [name, { name, texts: [], where: `--${name}`, ignored: false }]));
}

function asTriton(config: ServeConfig, triton: TritonServerConfig): ServeConfig {
  const metrics = { ...config.metrics, role: ROLES.triton.metrics };
  return { ...config, role: "triton", metrics, triton };
}

/** Reads the resources of --rate-limit. Returns null if instances do not wait for resources. */
function rateLimitOf(values: TritonServerValues): TritonServerConfig["rateLimit"] | UsageError {
  const resources = (values["rate-limit-resource"] ?? []).map(readResource);
  const strange = resources.find((resource) => "error" in resource);
  if (strange !== undefined) return strange as UsageError;
  return values["rate-limit"] === "execution_count" ? resources.filter((resource) => "name" in resource) : null;
}

function restrictedBy(values: TritonServerValues, flag: "http-restricted-api" | "grpc-restricted-protocol") {
  const read = (values[flag] ?? []).map(readRestricted);
  const wrong = read.find((group) => "error" in group);
  if (wrong !== undefined && "error" in wrong) return { error: `--${flag}: ${wrong.error}` };
  const groups = read.filter((group) => "apis" in group);
  const all = groups.flatMap(({ apis }) => apis);
  const twice = all.find((api, at) => all.indexOf(api) < at);
  const what = flag === "http-restricted-api" ? "api" : "protocol";
  if (twice !== undefined)
    return { error: `--${flag}: restricted ${what} '${twice}' can not be specified in multiple config groups` };
  return groups;
}

/** Reads the TLS files of gRPC. Returns null if gRPC runs without TLS. */
function grpcTlsOf(values: TritonServerValues): TritonGrpcTls | null | UsageError {
  const { "grpc-server-cert": cert, "grpc-server-key": key, "grpc-root-cert": root } = values;
  const mutual = values["grpc-use-ssl-mutual"] ?? false;
  if (!mutual && values["grpc-use-ssl"] !== true) return null;
  if (cert === undefined || key === undefined)
    return { error: "--grpc-use-ssl: needs --grpc-server-cert and --grpc-server-key, PEM files" };
  if (mutual && root === undefined) return { error: "--grpc-use-ssl-mutual: needs --grpc-root-cert, a PEM file" };
  return { cert, key, root: mutual ? root! : null };
}

/** Reads the size of the response cache in bytes. Returns null if the server has no response cache. */
function cacheSize(values: TritonServerValues): number | null | UsageError {
  const { "cache-config": said, "response-cache-byte-size": former } = values;
  if (said !== undefined && former !== undefined)
    return {
      error:
        "Error: Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the other.",
    };
  const settings = said ?? (former === undefined ? [] : [`local,size=${former}`]);
  let size: number | null = null;
  for (const text of settings) {
    const [, cache, setting, value] = /^([^,=]+),([^=]+)=(.+)$/.exec(text) ?? [];
    if (value === undefined)
      return { error: `--cache-config option format is '<cache name>,<setting>=<value>'. Got ${text}` };
    if (cache !== "local" || setting !== "size") return { error: `--cache-config ${text}: must be local,size=BYTES` };
    size = Number(value);
    if (!Number.isInteger(size) || size < LEAST_CACHE_BYTES)
      return { error: `--cache-config ${text}: size must be at least ${LEAST_CACHE_BYTES} bytes` };
  }
  return size;
}
