/** What is `serve --role triton` to do? Its flags, read as `tritonserver` reads them; every error is one line. */
import { ROLES } from "../../app/config/roles.ts";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import {
  TRITON_VERSION_NAMES,
  type TritonLogSettings,
  type TritonMemoryConfig,
  type TritonRepositoryConfig,
  type TritonServerConfig,
  type TritonVersion,
} from "../../servers/triton/config/triton-config.ts";
import type { UsageError } from "./given.ts";
import { nearest } from "./lookup.ts";
import { type OptionRow, ownValue } from "./option.ts";
import { serveConfig } from "./serve-config.ts";
import { isEngineOption } from "./triton-engine-options.ts";
import { TRITON_ALIASES, TRITON_FRONT_END_IGNORED, TRITON_IGNORED, TRITON_IGNORED_SWITCHES } from "./triton-ignored.ts";
import { loneOpenAiFlag, openAiConfig, tritonOpenAiOptions } from "./triton-openai-options.ts";
import { readResource, readRestricted, type TritonServerValues, tritonServerOptions } from "./triton-server-options.ts";

const DEFAULTS = {
  host: "127.0.0.1",
  http: 8000,
  grpc: 8001,
  grpcMessageFields: 16_384,
  metrics: 8002,
  pollS: 15,
  exitS: 30,
  loadTime: { baseS: 1.3, perGibS: 0 },
  unloadS: 1.1,
  inputBytes: 64 * 2 ** 20,
  /** The real server knows no limit; this is what a server here holds of one body. */
  bodyBytes: 512 * 2 ** 20,
  pinnedBytes: 256 * 2 ** 20,
};
const LEAST_CACHE_BYTES = 1024;

interface Resolved {
  readonly config: ServeConfig;
  /** What the start does besides, as of every role. */
  readonly values: { readonly "ready-file"?: string; readonly "exit-with-parent"?: true };
  readonly ignored: readonly string[];
  readonly notices: readonly string[];
}

const rows: Readonly<Record<string, OptionRow & { readonly notIn?: readonly TritonVersion[] }>> = tritonServerOptions;

/** `argv`: what follows `serve`, without `--role`. `shipped`: the repository that is served where none is named. */
export function tritonServerConfig(argv: readonly string[], shipped: string): Resolved | UsageError {
  const said = readArgv(argv);
  if ("error" in said) return said;
  const values: Record<string, unknown> = {};
  for (const [name, written] of said.given) {
    const option = rows[name]!;
    const list = option.arity === "list";
    const meant = list ? written : written.slice(-1);
    const value = option.read(meant);
    if (value === undefined) return { error: `--${name}: takes ${option.accepts}, not "${meant.join(" ")}"` };
    values[name] = value;
  }
  const made = configOf(values as TritonServerValues, shipped);
  if ("error" in made) return made;
  const { "ready-file": readyFile, "exit-with-parent": exits } = values as TritonServerValues;
  const starting = {
    ...(readyFile === undefined ? {} : { "ready-file": readyFile }),
    ...(exits ? { "exit-with-parent": true as const } : {}),
  };
  return { ...made, values: starting, ignored: said.ignored };
}

function readArgv(argv: readonly string[]) {
  const given = new Map<string, string[]>();
  const ignored: string[] = [];
  const version = versionIn(argv);
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

function versionIn(argv: readonly string[]): TritonVersion {
  const joined = argv.join(" ");
  const said = /--triton-version[= ](\S+)/.exec(joined)?.[1];
  return TRITON_VERSION_NAMES.find((one) => one === said) ?? "2.73";
}

/**
 * Completes a flag as getopt_long does, with which tritonserver reads its flags (`command_line_parser.cc`, `TritonParser::Parse`):
 * an exact name wins, and so does a prefix that a single option has. Our own flags are not completed.
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

/** Flags of the OpenAI front end, a program of its own. */
function isFrontEnds(name: string): boolean {
  return Object.hasOwn(tritonOpenAiOptions, name) || TRITON_FRONT_END_IGNORED.includes(name);
}

const hasFrontEnd = (argv: readonly string[]) => argv.some((token) => /^--openai(=|$)/.test(token));

/** Flags of other servers, and the flag of tritonserver that means the same. */
const MEANT: Readonly<Record<string, string>> = {
  address: "http-address",
  host: "http-address",
  model: "model-repository",
  port: "http-port",
};

/** Words the refusal as getopt does, and adds the flag that was perhaps meant. */
function unrecognized(name: string, argv: readonly string[]): UsageError {
  const meant = name === "port" && hasFrontEnd(argv) ? "openai-port" : ownValue(MEANT, name);
  const names = meant === undefined ? nearest(name, [...Object.keys(rows), ...TRITON_IGNORED]) : [meant];
  const near = names.map((one) => `--${one}`);
  const hint = Object.hasOwn(rows, name)
    ? " (another --triton-version has it)"
    : near.length > 0
      ? `; did you mean ${near.join(" or ")}?`
      : " (understudy serve --role triton --help lists what is accepted)";
  return { error: `unrecognized option '--${name}'${hint}` };
}

function configOf(values: TritonServerValues, shipped: string): Omit<Resolved, "ignored" | "values"> | UsageError {
  const version = values["triton-version"] ?? "2.73";
  const control = values["model-control-mode"] ?? "none";
  if (values["load-model"] && control !== "explicit")
    return { error: "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well." };
  if (values["load-model"]?.includes("*") && values["load-model"].length > 1)
    return { error: "Wildcard model name '*' must be the ONLY startup model if specified at all." };
  const cacheBytes = cacheSize(values);
  if (typeof cacheBytes === "object" && cacheBytes !== null) return cacheBytes;
  const restrictedHttp = restrictedBy(values, "http-restricted-api");
  if ("error" in restrictedHttp) return restrictedHttp;
  const resources = (values["rate-limit-resource"] ?? []).map(readResource);
  const strange = resources.find((one) => "error" in one);
  if (strange !== undefined) return strange as UsageError;
  const grpc = grpcOf(values);
  if ("error" in grpc) return grpc;
  const lone = loneOpenAiFlag(values);
  if (lone !== undefined) {
    const meant = ownValue(MEANT, lone);
    return { error: `--${lone}: needs --openai${meant === undefined ? "" : `; without it, use --${meant}`}` };
  }
  const host = values["http-address"] ?? values.host ?? DEFAULTS.host;
  const openai = openAiConfig(values, host);
  const closed = openai !== null && values["enable-kserve-frontends"] !== true;
  const port = values["kserve-http-port"] ?? values["http-port"] ?? DEFAULTS.http;
  const http = closed || values["allow-http"] === false ? null : { host, port };
  const engine = Object.fromEntries(Object.entries(values).filter(([name]) => isEngineOption(name)));
  const made = serveConfig(
    {
      host,
      port: http?.port ?? 0,
      ...(openai === null ? { "metrics-port": values["metrics-port"] ?? DEFAULTS.metrics } : {}),
      "disable-log-stats": true,
      "shutdown-timeout": values["exit-timeout-secs"] ?? DEFAULTS.exitS,
      ...sharedOf(values),
      ...(values["allowed-hosts"] === undefined ? {} : { "allowed-hosts": values["allowed-hosts"] }),
      ...(values.seed === undefined ? {} : { seed: values.seed }),
      ...engine,
    },
    new Map(Object.keys(engine).map((name) => [name, { name, texts: [], where: `--${name}`, ignored: false }])),
  );
  if ("error" in made) return made;
  const tritonServer: TritonServerConfig = {
    version,
    repository: repositoryOf(values, shipped, control),
    http,
    id: values.id ?? "triton",
    exit: { timeoutS: values["exit-timeout-secs"] ?? DEFAULTS.exitS, onError: values["exit-on-error"] ?? true },
    memory: memoryOf(values, version, cacheBytes),
    rateLimit: values["rate-limit"] === "execution_count" ? resources.filter((one) => "name" in one) : null,
    overHttp: {
      ...inputLimits(values, version),
      restricted: restrictedHttp,
      forward: values["http-header-forward-pattern"] ?? null,
    },
    ...grpc,
    ...(closed ? { grpc: null } : {}),
    openai,
    log: logOf(values),
  };
  const unwritten =
    values["log-file"] === undefined ? [] : ["--log-file: only /v2/logging shows it, nothing is written"];
  return { config: asTriton(made.config, tritonServer), notices: [...made.notices, ...unwritten] };
}

function asTriton(config: ServeConfig, triton: TritonServerConfig): ServeConfig {
  const metrics = { ...config.metrics, role: ROLES.triton.metrics };
  return { ...config, role: "triton", metrics, triton };
}

function repositoryOf(
  values: TritonServerValues,
  shipped: string,
  control: TritonRepositoryConfig["control"],
): TritonRepositoryConfig {
  return {
    folders: values["model-repository"] ?? [shipped],
    control,
    pollS: values["repository-poll-secs"] ?? DEFAULTS.pollS,
    loadModels: values["load-model"] ?? [],
    loadTime: values["load-time"] ?? DEFAULTS.loadTime,
    unloadS: values["unload-time"] ?? DEFAULTS.unloadS,
    namespacing: values["model-namespacing"] ?? false,
    strictReadiness: values["strict-readiness"] ?? true,
  };
}

function memoryOf(values: TritonServerValues, version: TritonVersion, cacheBytes: number | null): TritonMemoryConfig {
  return {
    cacheBytes,
    clientSharedMemory: values["allow-client-shm"] ?? version === "2.51",
    pinnedBytes: values["pinned-memory-pool-byte-size"] ?? DEFAULTS.pinnedBytes,
    deviceBytes: values["device-memory"] ?? null,
    loadLimits: values["model-load-gpu-limit"] ?? new Map(),
  };
}

function inputLimits(values: TritonServerValues, version: TritonVersion) {
  const maxInputBytes = version === "2.51" ? null : (values["http-max-input-size"] ?? DEFAULTS.inputBytes);
  return { maxInputBytes, maxBodyBytes: Math.max(DEFAULTS.bodyBytes, maxInputBytes ?? 0) };
}

const logOf = (values: TritonServerValues): TritonLogSettings => ({
  info: values["log-info"] ?? true,
  warning: values["log-warning"] ?? true,
  error: values["log-error"] ?? true,
  verbose: values["log-verbose"] ?? 0,
  format: values["log-format"] ?? "default",
  file: values["log-file"] ?? "",
});

function restrictedBy(values: TritonServerValues, flag: "http-restricted-api" | "grpc-restricted-protocol") {
  const read = (values[flag] ?? []).map(readRestricted);
  const wrong = read.find((one) => "error" in one);
  if (wrong !== undefined && "error" in wrong) return { error: `--${flag}: ${wrong.error}` };
  const groups = read.filter((one) => "apis" in one);
  const all = groups.flatMap(({ apis }) => apis);
  const twice = all.find((api, at) => all.indexOf(api) < at);
  const what = flag === "http-restricted-api" ? "api" : "protocol";
  if (twice !== undefined)
    return { error: `--${flag}: restricted ${what} '${twice}' can not be specified in multiple config groups` };
  return groups;
}

function grpcOf(values: TritonServerValues): Pick<TritonServerConfig, "grpc" | "overGrpc"> | UsageError {
  const restrictedGrpc = restrictedBy(values, "grpc-restricted-protocol");
  if ("error" in restrictedGrpc) return restrictedGrpc;
  const { "grpc-server-cert": cert, "grpc-server-key": key, "grpc-root-cert": root } = values;
  const mutual = values["grpc-use-ssl-mutual"] ?? false;
  const tls = mutual || (values["grpc-use-ssl"] ?? false);
  if (tls && (cert === undefined || key === undefined))
    return { error: "--grpc-use-ssl: takes --grpc-server-cert and --grpc-server-key beside it, PEM files" };
  if (mutual && root === undefined)
    return { error: "--grpc-use-ssl-mutual: takes --grpc-root-cert beside it, a PEM file" };
  const host = values["grpc-address"] ?? values["http-address"] ?? values.host ?? DEFAULTS.host;
  const port = values["kserve-grpc-port"] ?? values["grpc-port"] ?? DEFAULTS.grpc;
  return {
    grpc: values["allow-grpc"] === false ? null : { host, port },
    overGrpc: {
      tls: tls ? { cert: cert!, key: key!, root: mutual ? root! : null } : null,
      compression: values["grpc-infer-response-compression-level"] ?? "none",
      forward: values["grpc-header-forward-pattern"] ?? null,
      messageFields: values["grpc-max-message-fields"] ?? DEFAULTS.grpcMessageFields,
      restricted: restrictedGrpc,
      keepAlive: {
        timeMs: values["grpc-keepalive-time"] ?? 7_200_000,
        timeoutMs: values["grpc-keepalive-timeout"] ?? 20_000,
        withoutCalls: values["grpc-keepalive-permit-without-calls"] ?? false,
        leastIntervalMs: values["grpc-http2-min-recv-ping-interval-without-data"] ?? 300_000,
        strikesMost: values["grpc-http2-max-ping-strikes"] ?? 2,
        ageMs: values["grpc-max-connection-age"] ?? 0,
        graceMs: values["grpc-max-connection-age-grace"] ?? 0,
      },
    },
  };
}

/** Options that other roles have, too. */
function sharedOf(values: TritonServerValues) {
  const names = [
    "allow-metrics",
    "allow-gpu-metrics",
    "allow-cpu-metrics",
    "metrics-address",
    "metrics-interval-ms",
    "metrics-config",
    "allow-request-orders",
    "fault-rate",
    "fault-types",
    "fault-plan",
    "truth-log",
    "truth-wire",
  ] as const;
  return Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));
}

/** null: no cache. */
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
    if (cache !== "local" || setting !== "size")
      return { error: `--cache-config ${text}: local,size=BYTES is accepted` };
    size = Number(value);
    if (!Number.isInteger(size) || size < LEAST_CACHE_BYTES)
      return { error: `--cache-config ${text}: a size from ${LEAST_CACHE_BYTES} bytes on is accepted` };
  }
  return size;
}
