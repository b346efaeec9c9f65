/** The flags of `serve --role triton`: those of `tritonserver`, with its syntax, from its `command_line_parser.cc` (2026). */

import { TRITON_VERSION_NAMES, type TritonVersion } from "../../servers/triton/config/triton-config.ts";
import { SIZE_FORMS, sizeIn } from "../../servers/triton/model-config/sizes.ts";
import { allowedHosts } from "./front-limit-options.ts";
import { initially, type LandingRow, serveGroup } from "./landing.ts";
import { choice, choiceOfAnyCase, freeText, integer, one, texts, type ValueOf } from "./option.ts";
import { serveOptions } from "./serve-options.ts";
import { tritonGrpcOptions } from "./triton-grpc-options.ts";
import { tritonOpenAiOptions } from "./triton-openai-options.ts";
import { tritonBoolean, tritonOptions } from "./triton-options.ts";
import {
  int64,
  LOAD_TIME_FORMS,
  loadLimitsIn,
  loadTimeIn,
  RESTRICTED_NAMES,
  UNLOAD_TIME_FORMS,
  unloadSecondsIn,
  verbosity,
} from "./triton-values.ts";
import { trtllmOptions } from "./trtllm-options.ts";
import { wireOptions } from "./wire-options.ts";

/** `notIn`: versions that do not have the flag. */
export type TritonRow = LandingRow & { readonly notIn?: readonly TritonVersion[] };

const port = integer(0, 65535);

/** Options of the engine behind LLM models: those of `serve` under the same names, with Triton's syntax. */
const ENGINE_OPTIONS = [
  "model",
  "timing",
  "tokenizer",
  "max-model-len",
  "max-num-seqs",
  "max-num-batched-tokens",
  "block-size",
  "num-gpu-blocks-override",
  "enable-prefix-caching",
  "output-tokens",
  "embedding-dimensions",
  "image-tokens",
  ...(Object.keys(trtllmOptions) as (keyof typeof trtllmOptions)[]),
] as const;
type EngineOption = (typeof ENGINE_OPTIONS)[number];

export const isEngineOption = (name: string): name is EngineOption => ENGINE_OPTIONS.some((one) => one === name);

/** Switches take true or false, as all flags of Triton do. */
const engineOptions = Object.fromEntries(
  ENGINE_OPTIONS.map((name) => {
    const row: LandingRow = serveOptions[name];
    const reads = row.metavar === "" ? tritonBoolean : {};
    return [name, { ...row, ...reads, group: "Engine of LLM models", ours: true }];
  }),
) as { readonly [Name in EngineOption]: LandingRow<ValueOf<(typeof serveOptions)[Name]>> };

export const tritonServerOptions = {
  ...serveGroup("Stand-in", { "allowed-hosts": { lands: "listen.allowedHosts", ...allowedHosts, ours: true } }),
  ...serveGroup("Stand-in", {
    "ready-file": {
      outside: "the command writes the file",
      ...freeText("FILE", "the path of a file"),
      default: "none",
      about:
        "JSON with the URLs of all listeners (null: off) and the pid, written when requests are taken: complete, or not there.",
      ours: true,
    },
    "exit-with-parent": {
      outside: "the command watches its parent",
      ...tritonBoolean,
      default: "false",
      about: "Ends in order when whoever started it has gone away, however that happened.",
      ours: true,
    },
  }),
  ...serveGroup("Models", {
    "model-repository": {
      lands: "triton.repository.folders",
      ...texts("PATH", "folders"),
      default: "the one that is shipped",
      about: "A folder of models; several times for several.",
    },
    "model-control-mode": {
      lands: "triton.repository.control",
      ...choiceOfAnyCase("none", "explicit", "poll"),
      ...initially("none"),
      about: "Who loads models: the start alone, requests, or changes in the repository.",
    },
    "repository-poll-secs": {
      lands: "triton.repository.pollS",
      ...integer(0),
      ...initially(15),
      about: "How often the repository is looked at, with poll; 0: never.",
    },
    "load-model": {
      lands: "triton.repository.loadModels",
      ...texts("NAME", "models"),
      initial: [],
      default: "none",
      about: "Models that are loaded at the start, with explicit; * is all.",
    },
    "model-namespacing": {
      lands: "triton.repository.namespacing",
      ...tritonBoolean,
      ...initially(false),
      about: "Metrics show the repository of a model as its namespace; one that two repositories have is not served.",
    },
    "load-time": {
      lands: "triton.repository.loadTime",
      ...one("SECONDS", LOAD_TIME_FORMS, loadTimeIn),
      initial: { baseS: 1.3, perGibS: 0 },
      default: "1.3",
      about:
        "Seconds that the load of a model takes that is asked for, or found by a poll, while the server runs; base=1.3,per_gib=0.4: and so many more for each GiB of weights.",
      ours: true,
    },
    "unload-time": {
      lands: "triton.repository.unloadS",
      ...one("SECONDS", UNLOAD_TIME_FORMS, unloadSecondsIn),
      ...initially(1.1),
      about: "Seconds for which each instance of a model is unloading, when its last request has been answered.",
      ours: true,
    },
    "device-memory": {
      lands: "triton.memory.deviceBytes",
      ...one("SIZE", SIZE_FORMS, (text) => sizeIn(text) || undefined),
      initial: null,
      default: "the preset's GPU; without a preset no limit",
      about: "Memory of each GPU: a model whose weights do not fit is not loaded.",
      ours: true,
    },
    "model-load-gpu-limit": {
      lands: "triton.memory.loadLimits",
      ...{
        arity: "list",
        metavar: "DEVICE:FRACTION",
        accepts: "a GPU and a share of its memory from 0 to 1, as 0:0.8",
        read: loadLimitsIn,
      },
      initial: new Map<number, number>(),
      default: "none",
      about: "A model that leaves more than so much of a GPU taken is not loaded.",
    },
    "cache-config": {
      feeds: "triton.memory.cacheBytes",
      ...texts("CACHE,SETTING=VALUE", "settings, as local,size=1048576"),
      default: "no cache",
      about: "The response cache: local,size=BYTES.",
    },
    "response-cache-byte-size": {
      feeds: "triton.memory.cacheBytes",
      ...int64(0),
      default: "no cache",
      about: "Former spelling of --cache-config=local,size=BYTES.",
    },
    "rate-limit": {
      feeds: "triton.rateLimit",
      ...choiceOfAnyCase("off", "execution_count"),
      default: "off",
      about: "Instances wait for resources too, with execution_count.",
    },
    "rate-limit-resource": {
      feeds: "triton.rateLimit",
      ...texts("NAME:COUNT[:DEVICE]", "resources, as R1:10 or R1:10:0"),
      default: "what the neediest instance needs",
      about: "How much of a resource there is, with execution_count; of one that is not named there is none then.",
    },
  }),
  ...serveGroup("Server", {
    "exit-on-error": {
      lands: "triton.exit.onError",
      ...tritonBoolean,
      ...initially(true),
      about: "No start where a model does not load.",
    },
    id: {
      lands: "triton.id",
      ...freeText("NAME", "a name"),
      ...initially("triton"),
      about: "Name of the server in its metadata.",
    },
    "exit-timeout-secs": {
      lands: "triton.exit.timeoutS",
      ...integer(0),
      ...initially(30),
      about: "How long requests may go on at the end; where some still do then, the exit code is 1.",
    },
    "strict-readiness": {
      lands: "triton.repository.strictReadiness",
      ...tritonBoolean,
      ...initially(true),
      about: "The server is ready only when all models are.",
    },
  }),
  ...serveGroup("HTTP", {
    "allow-http": { feeds: "triton.http", ...tritonBoolean, default: "true", about: "HTTP." },
    "http-port": { lands: "triton.http.port", ...port, ...initially(8000), about: "Port of HTTP. 0 takes a free one." },
    "http-address": {
      lands: "triton.http.host",
      ...freeText("ADDRESS", "an address"),
      default: "127.0.0.1",
      about: "Address of HTTP; Triton's own default is 0.0.0.0.",
    },
    "http-max-input-size": {
      lands: "triton.overHttp.maxInputBytes",
      ...int64(1),
      ...initially(67_108_864),
      about:
        "Largest input, bytes: JSON, raw, unpacked, made from JSON. Binary tensors are as large as the body, at most 512 MiB or this.",
      notIn: ["2.51"],
    },
    "http-restricted-api": {
      feeds: "triton.overHttp.restricted",
      ...texts("API,…:KEY=VALUE", "APIs with the header that opens them, as model-repository,logging:admin=yes"),
      default: "none",
      about: `APIs that need a header: ${RESTRICTED_NAMES.join(", ")}.`,
    },
    "http-header-forward-pattern": {
      lands: "triton.overHttp.forward",
      ...freeText("PATTERN", "a pattern of RE2"),
      initial: null,
      default: "none",
      about: "Headers of /infer whose names match become parameters of the request.",
    },
    "allow-client-shm": {
      lands: "triton.memory.clientSharedMemory",
      ...tritonBoolean,
      default: "false; 2.51 always allows it",
      about: "Clients may register shared memory.",
      notIn: ["2.51"],
    },
  }),
  ...tritonGrpcOptions,
  ...tritonOpenAiOptions,
  ...engineOptions,
  ...tritonOptions,
  ...serveGroup("Triton's metrics", {
    "pinned-memory-pool-byte-size": {
      lands: "triton.memory.pinnedBytes",
      ...int64(0),
      ...initially(268_435_456),
      about: "Size of the pool of pinned memory, of which nothing is taken here.",
    },
    "metrics-port": {
      lands: "metrics.triton.listen.port",
      ...port,
      default: "8002",
      about: "Port of metrics. 0 takes a free one.",
    },
    "metrics-address": {
      lands: "metrics.triton.listen.host",
      ...freeText("ADDRESS", "an address"),
      default: "--http-address",
      about: "Address of metrics.",
    },
  }),
  ...serveGroup("Logging", {
    "log-info": {
      lands: "triton.log.info",
      ...tritonBoolean,
      ...initially(true),
      about: "What /v2/logging says of it.",
    },
    "log-warning": {
      lands: "triton.log.warning",
      ...tritonBoolean,
      ...initially(true),
      about: "What /v2/logging says of it.",
    },
    "log-error": {
      lands: "triton.log.error",
      ...tritonBoolean,
      ...initially(true),
      about: "What /v2/logging says of it.",
    },
    "log-verbose": {
      lands: "triton.log.verbose",
      ...verbosity,
      ...initially(0),
      about: "What /v2/logging says of it.",
    },
    "log-format": {
      lands: "triton.log.format",
      ...choice("default", "ISO8601"),
      ...initially("default"),
      about: "What /v2/logging says of it.",
    },
    "log-file": {
      lands: "triton.log.file",
      ...freeText("PATH", "a file"),
      initial: "",
      default: "none",
      about: "What /v2/logging says of it; nothing is written there.",
    },
  }),
  ...serveGroup("Stand-in", {
    "triton-version": {
      lands: "triton.version",
      ...choice(...TRITON_VERSION_NAMES),
      ...initially("2.73"),
      about: "The version that is stood in for; what differs: docs/triton.md.",
      ours: true,
    },
  }),
  ...serveGroup("Faults", {
    "allow-request-orders": wireOptions["allow-request-orders"],
    "fault-rate": wireOptions["fault-rate"],
    "fault-types": wireOptions["fault-types"],
    "fault-plan": wireOptions["fault-plan"],
    "truth-log": {
      lands: "truth.log.file",
      ...freeText("FILE", "the path of a file"),
      default: "none",
      about: "Write what each disturbed answer was to this file: docs/truth-log.md.",
      ours: true,
    },
    "truth-wire": {
      lands: "truth.log.wire",
      ...tritonBoolean,
      default: "false",
      about: "The bytes of disturbed answers stand in the truth log, too.",
      ours: true,
    },
  }),
  ...serveGroup("Stand-in", {
    seed: {
      lands: "seed",
      ...integer(0, 2 ** 32 - 1),
      default: "by chance",
      about: "Drawn tensors and texts repeat from one start to the next.",
      ours: true,
    },
  }),
} satisfies Readonly<Record<string, TritonRow>>;

type Table = typeof tritonServerOptions;
export type TritonServerValues = { readonly [Name in keyof Table]?: ValueOf<Table[Name]> };
