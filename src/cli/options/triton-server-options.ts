/** Which flags has `serve --role triton`? `tritonserver`'s, with its syntax: `command_line_parser.cc` (2026). */

import type {
  RestrictedApis,
  TritonLoadTime,
  TritonResource,
  TritonVersion,
} from "../../servers/triton/config/triton-config.ts";
import { TRITON_VERSION_NAMES } from "../../servers/triton/config/triton-config.ts";
import { SIZE_FORMS, sizeIn } from "../../servers/triton/model-config/sizes.ts";
import { allowedHosts } from "./allowed-hosts-option.ts";
import {
  choice,
  choiceOfAnyCase,
  freeText,
  inGroup,
  integer,
  type Option,
  type OptionRow,
  one,
  texts,
} from "./option.ts";
import { tritonEngineOptions } from "./triton-engine-options.ts";
import { tritonOpenAiOptions } from "./triton-openai-options.ts";
import { tritonBoolean, tritonOptions } from "./triton-options.ts";
import { wireOptions } from "./wire-options.ts";

type Row<T> = OptionRow<T> & {
  /** Versions that do not know it. */
  readonly notIn?: readonly TritonVersion[];
};

const row = <T>(option: Option<T>, group: string, byDefault: string, about: string): Row<T> => ({
  ...option,
  group,
  default: byDefault,
  about,
});
const ours = <T>(one: Row<T>): Row<T> => ({ ...one, ours: true });
const port = integer(0, 65535);
const several = (metavar: string, accepts: string): Option<readonly string[]> => texts(metavar, accepts);

/** 64 bits, as `ParseOption<int64_t>`; what lies beyond the integers of a double is the largest of these. */
const int64 = (min: number): Option<number> =>
  one("N", `a whole number of 64 bits from ${min}`, (text) => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
    const fits = value >= min && BigInt(text.replace("+", "")) < 2n ** 63n;
    return fits ? Math.min(value, Number.MAX_SAFE_INTEGER) : undefined;
  });

/** `ParseIntBoolOption`. */
const verbosity: Option<number> = one("N", "a whole number from 0 to 2147483647, true or false", (text) => {
  const lower = text.toLowerCase();
  return lower === "true" ? 1 : lower === "false" ? 0 : integer(0).read([text]);
});

const LOAD_TIME_FORMS = "seconds from 0 to 3600, also as base=1.3,per_gib=0.4";
const LONGEST_S = 3600;

function loadTimeIn(text: string): TritonLoadTime | undefined {
  const [, bare, base, perGib = "0"] =
    /^(?:(\d+\.?\d*|\.\d+)|base=(\d+\.?\d*|\.\d+)(?:,per_gib=(\d+\.?\d*|\.\d+))?)$/.exec(text) ?? [];
  const [baseS, perGibS] = [Number(bare ?? base ?? Number.NaN), Number(perGib)];
  return baseS <= LONGEST_S && perGibS <= LONGEST_S ? { baseS, perGibS } : undefined;
}

const UNLOAD_TIME_FORMS = "seconds from 0 to 3600";

function unloadSecondsIn(text: string): number | undefined {
  const seconds = /^(\d+\.?\d*|\.\d+)$/.test(text) ? Number(text) : Number.NaN;
  return seconds <= LONGEST_S ? seconds : undefined;
}

/** By GPU; the last one said of it holds. */
function loadLimitsIn(texts: readonly string[]): ReadonlyMap<number, number> | undefined {
  const found = texts.map((text) => /^(\d{1,6}):(0|1|[01]?\.\d+|1\.0*|0\.)$/.exec(text));
  if (found.some((one) => one === null || Number(one[2]) > 1)) return undefined;
  return new Map(found.map((one) => [Number(one![1]), Number(one![2])]));
}

export const RESTRICTED_NAMES = [
  "health",
  "metadata",
  "inference",
  "shared-memory",
  "model-config",
  "model-repository",
  "statistics",
  "trace",
  "logging",
];

const SERVER = "Server";
const MODELS = "Models";
const HTTP = "HTTP";
const GRPC = "gRPC";
const LOGGING = "Logging";
const STAND_IN = "Stand-in";

const STARTING = {
  "allowed-hosts": ours(row(allowedHosts, STAND_IN, allowedHosts.default, allowedHosts.about)),
  "ready-file": ours(
    row(
      freeText("FILE", "the path of a file"),
      STAND_IN,
      "none",
      "JSON with the URLs of all listeners (null: off) and the pid, written when requests are taken: complete, or not there.",
    ),
  ),
  "exit-with-parent": ours(
    row(
      tritonBoolean,
      STAND_IN,
      "false",
      "Ends in order when whoever started it has gone away, however that happened.",
    ),
  ),
};

const FAULTS = inGroup("Faults", {
  "allow-request-orders": wireOptions["allow-request-orders"],
  "fault-rate": wireOptions["fault-rate"],
  "fault-types": wireOptions["fault-types"],
  "fault-plan": wireOptions["fault-plan"],
  "truth-log": ours(
    row(
      freeText("FILE", "the path of a file"),
      "",
      "none",
      "Write what each disturbed answer was to this file: docs/truth-log.md.",
    ),
  ),
  "truth-wire": ours(row(tritonBoolean, "", "false", "The bytes of disturbed answers stand in the truth log, too.")),
});

export const tritonServerOptions = {
  ...STARTING,
  "model-repository": row(
    several("PATH", "folders"),
    MODELS,
    "the one that is shipped",
    "A folder of models; several times for several.",
  ),
  "model-control-mode": row(
    choiceOfAnyCase("none", "explicit", "poll"),
    MODELS,
    "none",
    "Who loads models: the start alone, requests, or changes in the repository.",
  ),
  "repository-poll-secs": row(integer(0), MODELS, "15", "How often the repository is looked at, with poll; 0: never."),
  "load-model": row(
    several("NAME", "models"),
    MODELS,
    "none",
    "Models that are loaded at the start, with explicit; * is all.",
  ),
  "model-namespacing": row(
    tritonBoolean,
    MODELS,
    "false",
    "Metrics show the repository of a model as its namespace; one that two repositories have is not served.",
  ),
  "load-time": ours(
    row(
      one("SECONDS", LOAD_TIME_FORMS, loadTimeIn),
      MODELS,
      "1.3",
      "Seconds that the load of a model takes that is asked for, or found by a poll, while the server runs; base=1.3,per_gib=0.4: and so many more for each GiB of weights.",
    ),
  ),
  "unload-time": ours(
    row(
      one("SECONDS", UNLOAD_TIME_FORMS, unloadSecondsIn),
      MODELS,
      "1.1",
      "Seconds for which each instance of a model is unloading, when its last request has been answered.",
    ),
  ),
  "device-memory": ours(
    row(
      one("SIZE", SIZE_FORMS, (text) => sizeIn(text) || undefined),
      MODELS,
      "the preset's GPU; without a preset no limit",
      "Memory of each GPU: a model whose weights do not fit is not loaded.",
    ),
  ),
  "model-load-gpu-limit": row(
    {
      arity: "list",
      metavar: "DEVICE:FRACTION",
      accepts: "a GPU and a share of its memory from 0 to 1, as 0:0.8",
      read: loadLimitsIn,
    } satisfies Option<ReadonlyMap<number, number>>,
    MODELS,
    "none",
    "A model that leaves more than so much of a GPU taken is not loaded.",
  ),
  "cache-config": row(
    several("CACHE,SETTING=VALUE", "settings, as local,size=1048576"),
    MODELS,
    "no cache",
    "The response cache: local,size=BYTES.",
  ),
  "response-cache-byte-size": row(int64(0), MODELS, "no cache", "Former spelling of --cache-config=local,size=BYTES."),
  "rate-limit": row(
    choiceOfAnyCase("off", "execution_count"),
    MODELS,
    "off",
    "Instances wait for resources too, with execution_count.",
  ),
  "rate-limit-resource": row(
    several("NAME:COUNT[:DEVICE]", "resources, as R1:10 or R1:10:0"),
    MODELS,
    "what the neediest instance needs",
    "How much of a resource there is, with execution_count; of one that is not named there is none then.",
  ),
  "exit-on-error": row(tritonBoolean, SERVER, "true", "No start where a model does not load."),
  id: row(freeText("NAME", "a name"), SERVER, "triton", "Name of the server in its metadata."),
  "exit-timeout-secs": row(
    integer(0),
    SERVER,
    "30",
    "How long requests may go on at the end; where some still do then, the exit code is 1.",
  ),
  "strict-readiness": row(tritonBoolean, SERVER, "true", "The server is ready only when all models are."),
  "allow-http": row(tritonBoolean, HTTP, "true", "HTTP."),
  "http-port": row(port, HTTP, "8000", "Port of HTTP. 0 takes a free one."),
  "http-address": row(
    freeText("ADDRESS", "an address"),
    HTTP,
    "127.0.0.1",
    "Address of HTTP; Triton's own default is 0.0.0.0.",
  ),
  "http-max-input-size": {
    ...row(
      int64(1),
      HTTP,
      "67108864",
      "Largest input, bytes: JSON, raw, unpacked, made from JSON. Binary tensors are as large as the body, at most 512 MiB or this.",
    ),
    notIn: ["2.51"],
  } as Row<number>,
  "http-restricted-api": row(
    several("API,…:KEY=VALUE", "APIs with the header that opens them, as model-repository,logging:admin=yes"),
    HTTP,
    "none",
    `APIs that need a header: ${RESTRICTED_NAMES.join(", ")}.`,
  ),
  "http-header-forward-pattern": row(
    freeText("PATTERN", "a pattern of RE2"),
    HTTP,
    "none",
    "Headers of /infer whose names match become parameters of the request.",
  ),
  "allow-client-shm": {
    ...row(tritonBoolean, HTTP, "false; 2.51 always allows it", "Clients may register shared memory."),
    notIn: ["2.51"],
  } as Row<boolean>,
  "allow-grpc": row(tritonBoolean, GRPC, "true", "gRPC."),
  "grpc-port": row(port, GRPC, "8001", "Port of gRPC. 0 takes a free one."),
  "grpc-address": row(freeText("ADDRESS", "an address"), GRPC, "--http-address", "Address of gRPC."),
  "grpc-restricted-protocol": row(
    several("PROTOCOL,…:KEY=VALUE", "protocols with the header that opens them, as inference,statistics:admin=yes"),
    GRPC,
    "none",
    "Protocols that need a header triton-grpc-protocol-KEY; their names are those of APIs.",
  ),
  "grpc-use-ssl": row(tritonBoolean, GRPC, "false", "TLS, with --grpc-server-cert and --grpc-server-key."),
  "grpc-use-ssl-mutual": row(tritonBoolean, GRPC, "false", "TLS, and clients must have a certificate, too."),
  "grpc-server-cert": row(freeText("PATH", "a file"), GRPC, "none", "The server's certificate, PEM."),
  "grpc-server-key": row(freeText("PATH", "a file"), GRPC, "none", "Its private key, PEM."),
  "grpc-root-cert": row(freeText("PATH", "a file"), GRPC, "none", "Who signed the clients' certificates, PEM."),
  "grpc-infer-response-compression-level": row(
    choiceOfAnyCase("none", "low", "medium", "high"),
    GRPC,
    "none",
    "How answers of inference are packed for clients that accept it: low gzip, else deflate.",
  ),
  "grpc-header-forward-pattern": row(
    freeText("PATTERN", "a pattern of RE2"),
    GRPC,
    "none",
    "Metadata of a call whose names match become parameters of its requests.",
  ),
  "grpc-max-message-fields": ours(
    row(
      integer(1),
      GRPC,
      "16384",
      "Most fields of one message: tensors, parameters, texts and raw contents, not numbers of lists. docs/limits.md says how they are counted.",
    ),
  ),
  "grpc-keepalive-time": row(integer(0), GRPC, "7200000", "Silence in milliseconds after which a client is pinged."),
  "grpc-keepalive-timeout": row(integer(0), GRPC, "20000", "What its answer may take; then the connection ends."),
  "grpc-keepalive-permit-without-calls": row(tritonBoolean, GRPC, "false", "Pings without a call, both ways."),
  "grpc-http2-min-recv-ping-interval-without-data": row(
    integer(0),
    GRPC,
    "300000",
    "Least milliseconds between a client's pings while nothing is sent.",
  ),
  "grpc-http2-max-ping-strikes": row(integer(0), GRPC, "2", "Pings that may come too early; 0 is any number."),
  "grpc-max-connection-age": row(
    integer(0),
    GRPC,
    "no end",
    "Milliseconds after which a connection takes no new call.",
  ),
  "grpc-max-connection-age-grace": row(integer(0), GRPC, "no end", "Milliseconds that its calls have from then on."),
  ...tritonOpenAiOptions,
  ...tritonEngineOptions,
  ...tritonOptions,
  "pinned-memory-pool-byte-size": row(
    int64(0),
    "Triton's metrics",
    "268435456",
    "Size of the pool of pinned memory, of which nothing is taken here.",
  ),
  "metrics-port": row(port, "Triton's metrics", "8002", "Port of metrics. 0 takes a free one."),
  "metrics-address": row(
    freeText("ADDRESS", "an address"),
    "Triton's metrics",
    "--http-address",
    "Address of metrics.",
  ),
  "log-info": row(tritonBoolean, LOGGING, "true", "What /v2/logging says of it."),
  "log-warning": row(tritonBoolean, LOGGING, "true", "What /v2/logging says of it."),
  "log-error": row(tritonBoolean, LOGGING, "true", "What /v2/logging says of it."),
  "log-verbose": row(verbosity, LOGGING, "0", "What /v2/logging says of it."),
  "log-format": row(choice("default", "ISO8601"), LOGGING, "default", "What /v2/logging says of it."),
  "log-file": row(
    freeText("PATH", "a file"),
    LOGGING,
    "none",
    "What /v2/logging says of it; nothing is written there.",
  ),
  "triton-version": ours(
    row(
      choice(...TRITON_VERSION_NAMES),
      STAND_IN,
      "2.73",
      "The version that is stood in for; what differs: docs/triton.md.",
    ),
  ),
  ...FAULTS,
  seed: ours(
    row(integer(0, 2 ** 32 - 1), STAND_IN, "by chance", "Drawn tensors and texts repeat from one start to the next."),
  ),
} satisfies Readonly<Record<string, Row<unknown>>>;

type Table = typeof tritonServerOptions;
export type TritonServerValues = { readonly [K in keyof Table]?: Table[K] extends Option<infer T> ? T : never };

/** `APIS:KEY=VALUE`; an error ends in what is accepted. */
export function readRestricted(text: string): RestrictedApis | { readonly error: string } {
  const [, list = "", header, value] = /^([^:]+):([^=]+)=(.+)$/s.exec(text) ?? [];
  if (header === undefined || value === undefined)
    return { error: `"${text}": APIS:KEY=VALUE is accepted, as model-repository,logging:admin=yes` };
  const apis = list.split(",").map((one) => one.trim());
  const strange = apis.find((one) => !RESTRICTED_NAMES.includes(one));
  if (strange !== undefined)
    return { error: `unknown restricted api '${strange}': ${RESTRICTED_NAMES.join(", ")} are accepted` };
  return { apis, header, value };
}

/** `--rate-limit-resource`. */
export function readResource(text: string): TritonResource | { readonly error: string } {
  const [, name, count, device = "-1"] = /^([^:]*):(\d+)(?::(-?\d+))?$/.exec(text) ?? [];
  if (name === undefined)
    return {
      error: `--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got ${text}`,
    };
  return { name, count: Number(count), device: Number(device) };
}
