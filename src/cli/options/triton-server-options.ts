/** The flags of `serve --role triton`. Names and syntax are those of `tritonserver` (`command_line_parser.cc`, 2026). */

import { TRITON_VERSION_NAMES, type TritonVersion } from "../../servers/triton/config/triton-config.ts";
import { SIZE_FORMS, sizeIn } from "../../servers/triton/model-config/sizes.ts";
import { kvEventsOptions } from "./engine-options.ts";
import { allowedHosts } from "./front-limit-options.ts";
import { initially, type LandingRow, ourServeGroup, serveGroup } from "./landing.ts";
import { choice, choiceOfAnyCase, freeText, integer, one, row, texts, type ValueOf } from "./option.ts";
import { printConfig, serveOptions } from "./serve-options.ts";
import { tritonGrpcOptions } from "./triton-grpc-options.ts";
import { tritonOpenAiOptions } from "./triton-openai-options.ts";
import { falseAtStart, tritonBoolean, tritonOptions, trueAtStart } from "./triton-options.ts";
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

/** A row of the table. `notIn`: the Triton versions that lack the flag. */
export type TritonRow = LandingRow & { readonly notIn?: readonly TritonVersion[] };

const port = integer(0, 65535);
const onlyReported = { about: "Value that /v2/logging reports. No other effect." };

/**
 * Options of `serve` for the engine that runs LLM models. They keep their names, but are written in the syntax of Triton's
 * flags.
 */
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
  ...(Object.keys(kvEventsOptions) as (keyof typeof kvEventsOptions)[]),
] as const;
type EngineOption = (typeof ENGINE_OPTIONS)[number];

export const isEngineOption = (name: string): name is EngineOption => ENGINE_OPTIONS.some((option) => option === name);

/** Rows of the engine options. A switch needs the value true or false here, because every flag of Triton needs a value. */
const engineOptions = Object.fromEntries(
  ENGINE_OPTIONS.map((name) => {
    const row: LandingRow = serveOptions[name];
    const reads = row.metavar === "" ? tritonBoolean : {};
    return [name, { ...row, ...reads, default: row.default, group: "Engine of LLM models", ours: true }];
  }),
) as { readonly [Name in EngineOption]: LandingRow<ValueOf<(typeof serveOptions)[Name]>> };

export const tritonServerOptions = {
  ...ourServeGroup("Stand-in", {
    "allowed-hosts": { lands: "listen.allowedHosts", ...allowedHosts },
    "ready-file": row(
      "Write a JSON file with the URLs of all listeners (null: off) and the pid once the server accepts requests. It appears complete, never in part.",
      serveOptions["ready-file"],
    ),
    "exit-with-parent": { ...serveOptions["exit-with-parent"], ...tritonBoolean },
    "triton-version": row("Version of Triton to stand in for. docs/servers/triton.md lists the differences.", {
      lands: "triton.version",
      ...choice(...TRITON_VERSION_NAMES),
      ...initially("2.73"),
    }),
    seed: row("Seed of generated tensors and texts. The same seed repeats them after each start.", {
      lands: "seed",
      ...integer(0, 2 ** 32 - 1),
      default: "random",
    }),
  }),
  ...serveGroup("Stand-in", {
    config: row(
      "YAML file whose keys are these options without leading dashes. The key role: triton chooses this role.",
      {
        outside: "names the file that other options are read from",
        ...freeText("FILE", "the path of a YAML file"),
        default: "none",
        ours: true,
      },
    ),
    "print-config": { ...printConfig, ours: true },
  }),
  ...serveGroup("Models", {
    "model-repository": row("Folder of models. Give the flag once per repository.", {
      lands: "triton.repository.folders",
      ...texts("PATH", "folders"),
      default: "the shipped repository",
    }),
    "model-control-mode": row(
      "When models are loaded. none: at the start only; explicit: by request; poll: when the repository changes.",
      { lands: "triton.repository.control", ...choiceOfAnyCase("none", "explicit", "poll"), ...initially("none") },
    ),
    "repository-poll-secs": row(
      "Seconds between two checks of the repository, with --model-control-mode=poll; 0: never.",
      { lands: "triton.repository.pollS", ...integer(0), ...initially(15) },
    ),
    "load-model": row("Model to load at the start, with --model-control-mode=explicit; *: all.", {
      lands: "triton.repository.loadModels",
      ...texts("NAME", "models"),
      initial: [],
    }),
    "model-namespacing": row(
      "Show the repository of a model as its namespace in metrics. A model that two repositories have is not served.",
      { lands: "triton.repository.namespacing", ...falseAtStart },
    ),
    "load-time": row(
      "Seconds to load a model while the server runs, by request or by poll. base=1.3,per_gib=0.4 adds 0.4 s per GiB of weights.",
      {
        lands: "triton.repository.loadTime",
        ...one("SECONDS", LOAD_TIME_FORMS, loadTimeIn),
        initial: { baseS: 1.3, perGibS: 0 },
        default: "1.3",
        ours: true,
      },
    ),
    "unload-time": row("Seconds to unload each instance of a model after its last request.", {
      lands: "triton.repository.unloadS",
      ...one("SECONDS", UNLOAD_TIME_FORMS, unloadSecondsIn),
      ...initially(1.1),
      ours: true,
    }),
    "device-memory": row("Memory of each GPU. A model whose weights do not fit is not loaded.", {
      lands: "triton.memory.deviceBytes",
      ...one("SIZE", SIZE_FORMS, (text) => sizeIn(text) || undefined),
      initial: null,
      default: "the preset's GPU; without a preset no limit",
      ours: true,
    }),
    "model-load-gpu-limit": row(
      "Do not load a model if it would raise the used share of a GPU's memory above this limit.",
      {
        lands: "triton.memory.loadLimits",
        ...{
          arity: "list",
          metavar: "DEVICE:FRACTION",
          accepts: "a GPU and a share of its memory from 0 to 1, as 0:0.8",
          read: loadLimitsIn,
        },
        initial: new Map<number, number>(),
      },
    ),
    "cache-config": row("Response cache and its size in bytes: local,size=BYTES.", {
      feeds: "triton.memory.cacheBytes",
      ...texts("CACHE,SETTING=VALUE", "settings, as local,size=1048576"),
      default: "no cache",
    }),
    "response-cache-byte-size": row("Deprecated. Same as --cache-config=local,size=BYTES.", {
      feeds: "triton.memory.cacheBytes",
      ...int64(0),
      default: "no cache",
    }),
    "rate-limit": row("execution_count: instances also wait for the resources that their configuration names.", {
      feeds: "triton.rateLimit",
      ...choiceOfAnyCase("off", "execution_count"),
      default: "off",
    }),
    "rate-limit-resource": row(
      "Amount of a resource, with --rate-limit=execution_count. If any is set, unnamed resources have 0.",
      {
        feeds: "triton.rateLimit",
        ...texts("NAME:COUNT[:DEVICE]", "resources, as R1:10 or R1:10:0"),
        default: "the largest need of one instance",
      },
    ),
  }),
  ...serveGroup("Server", {
    "exit-on-error": row("Do not start if a model fails to load.", { lands: "triton.exit.onError", ...trueAtStart }),
    id: row("Name of the server in its metadata.", {
      lands: "triton.id",
      ...freeText("NAME", "a name"),
      ...initially("triton"),
    }),
    "exit-timeout-secs": row(
      "Seconds that running requests may continue at shutdown. If some still run then, the exit code is 1.",
      { lands: "triton.exit.timeoutS", ...integer(0), ...initially(30) },
    ),
    "strict-readiness": row("Report the server as ready only if all models are.", {
      lands: "triton.repository.strictReadiness",
      ...trueAtStart,
    }),
  }),
  ...serveGroup("HTTP", {
    "allow-http": row("Serve HTTP.", { feeds: "triton.http", ...tritonBoolean, default: "true" }),
    "http-port": row("Port of HTTP. 0: any free port.", { lands: "triton.http.port", ...port, ...initially(8000) }),
    "http-address": row("Address of HTTP. Triton's default is 0.0.0.0.", {
      lands: "triton.http.host",
      ...freeText("ADDRESS", "an address"),
      default: "127.0.0.1",
    }),
    "http-max-input-size": row(
      "Maximum bytes of an input: as JSON, raw, decompressed, or as tensors made from JSON. Binary tensors may fill the body, up to 512 MiB or this limit.",
      { lands: "triton.overHttp.maxInputBytes", ...int64(1), ...initially(67_108_864), notIn: ["2.51"] },
    ),
    "http-restricted-api": row(`APIs that are open only to requests with a header: ${RESTRICTED_NAMES.join(", ")}.`, {
      feeds: "triton.overHttp.restricted",
      ...texts("API,…:KEY=VALUE", "APIs and the header that requests need, as model-repository,logging:admin=yes"),
      secret: true,
    }),
    "http-header-forward-pattern": row(
      "Pattern of header names. Matching headers of /infer become parameters of the request.",
      { lands: "triton.overHttp.forward", ...freeText("PATTERN", "a pattern of RE2"), initial: null },
    ),
    "allow-client-shm": row("Allow clients to register shared memory.", {
      lands: "triton.memory.clientSharedMemory",
      ...tritonBoolean,
      default: "false; 2.51 always allows it",
      notIn: ["2.51"],
    }),
  }),
  ...tritonGrpcOptions,
  ...tritonOpenAiOptions,
  ...engineOptions,
  ...tritonOptions,
  ...serveGroup("Triton's metrics", {
    "pinned-memory-pool-byte-size": row("Size of the pinned memory pool in bytes. Metrics show it; nothing uses it.", {
      lands: "triton.memory.pinnedBytes",
      ...int64(0),
      ...initially(268_435_456),
    }),
    "metrics-port": row("Port of metrics. 0: any free port.", {
      lands: "metrics.triton.listen.port",
      ...port,
      default: "8002",
    }),
    "metrics-address": row("Address of metrics.", {
      lands: "metrics.triton.listen.host",
      ...freeText("ADDRESS", "an address"),
      default: "--http-address",
    }),
  }),
  ...serveGroup("Logging", {
    "log-info": { lands: "triton.log.info", ...trueAtStart, ...onlyReported },
    "log-warning": { lands: "triton.log.warning", ...trueAtStart, ...onlyReported },
    "log-error": { lands: "triton.log.error", ...trueAtStart, ...onlyReported },
    "log-verbose": { lands: "triton.log.verbose", ...verbosity, ...initially(0), ...onlyReported },
    "log-format": {
      lands: "triton.log.format",
      ...choice("default", "ISO8601"),
      ...initially("default"),
      ...onlyReported,
    },
    "log-file": row("File name that /v2/logging reports. Nothing is written to it.", {
      lands: "triton.log.file",
      ...freeText("PATH", "a file"),
      initial: "",
    }),
  }),
  ...ourServeGroup("Faults", {
    "allow-request-orders": wireOptions["allow-request-orders"],
    "fault-rate": wireOptions["fault-rate"],
    "fault-types": wireOptions["fault-types"],
    "fault-plan": wireOptions["fault-plan"],
    "truth-log": row(
      "Write a record of each disturbed answer to this file: docs/reference/truth-log.md.",
      serveOptions["truth-log"],
    ),
    "truth-wire": row("Also write the bytes of disturbed answers to the truth log.", {
      lands: "truth.log.wire",
      ...tritonBoolean,
    }),
  }),
} satisfies Readonly<Record<string, TritonRow>>;

type Table = typeof tritonServerOptions;
export type TritonServerValues = { readonly [Name in keyof Table]?: ValueOf<Table[Name]> };
