/** What can `understudy serve` be told? The one table behind flags, environment, file, help and documentation. */

import { rolesText } from "../../app/config/roles.ts";
import { ADAPTERS_MOST, REQUESTS_MOST } from "../../base/core-limits.ts";
import { FIX_NAMES } from "../../engine/config/engine-config.ts";
import { TRUTH_REQUESTS } from "../../engine/timing/device-defaults.ts";
import { BUG_NAMES } from "../../metrics/config/bug-names.ts";
import { CURRENT, PROFILES, profileName } from "../../metrics/config/metrics-profiles.ts";
import { STREAM_WRITES } from "../../wire/lanes/stream-write-modes.ts";
import { allowedHosts } from "./allowed-hosts-option.ts";
import { deploymentOptions } from "./deployment-options.ts";
import { frontLimitOptions } from "./front-limit-options.ts";
import { lengthOptions } from "./length-options.ts";
import { loraModules } from "./lora-modules.ts";
import {
  choice,
  freeText,
  humanInteger,
  inGroup,
  integer,
  namesOf,
  number,
  type Option,
  onlyOn,
  texts,
  toggle,
  type ValueOf,
} from "./option.ts";
import { stepOptions } from "./step-options.ts";
import { tritonOptions } from "./triton-options.ts";
import { trtllmOptions, trtllmServeOptions } from "./trtllm-options.ts";
import { wireOptions } from "./wire-options.ts";

/** Processes of one server. */
const WORKERS_MAX = 64;

const modelLen: Option<number> = {
  ...humanInteger(1),
  accepts: "a whole number of at least 1, also as 8k (8000) or 8K (8192), or auto (-1)",
  read: (texts) => (/^(-1|auto)$/i.test(texts[0] ?? "") ? -1 : humanInteger(1).read(texts)),
};

const version: Option<string> = {
  ...freeText("VERSION", "a version, as 0.11"),
  read: ([text = ""]) => (/^\d+(\.\d+)*$/.test(text) ? text : undefined),
};

/** Names and defaults without `ours` are those of `vllm serve` 0.33. */
export const serveOptions = {
  ...inGroup("Model", {
    model: {
      ...freeText("NAME", "a model name"),
      default: "the preset's model",
      about:
        "Model to stand in for; also the first positional argument. Its name chooses the preset of --timing: docs/timing.md.",
    },
    "served-model-name": {
      ...texts("NAME", "one or more names"),
      default: "the model",
      about:
        "Names that requests may use. The first one stands in answers and metrics, in those of Triton for its ensemble.",
    },
    "max-model-len": {
      ...modelLen,
      default: "the preset's model",
      about: "Longest prompt plus answer, in tokens. auto: as much as the KV pool holds.",
    },
    "max-logprobs": {
      ...integer(-1),
      default: "20",
      about: "Most log probabilities that a request may ask for; -1 is no limit.",
    },
    seed: {
      ...integer(0, 2 ** 32 - 1),
      default: "0",
      about:
        "Seed of everything random. The same seed and request give the same answer. Where it is given, ids repeat too: the same requests in the same order get the same ones. Without it no two servers share an id.",
    },
  }),
  ...inGroup("Server", {
    host: {
      ...freeText("ADDRESS", "an address"),
      default: "127.0.0.1",
      about: "Address to listen on. vLLM listens on all interfaces; we do so only with --host 0.0.0.0.",
    },
    port: { ...integer(0, 65535), default: "8000", about: "Port to listen on; 0 takes a free one." },
    "http2-port": {
      ...integer(0, 65535),
      default: "none",
      about: "Port for HTTP/2, beside the other: without upgrade, or by ALPN with --ssl-certfile; 0 takes a free one.",
      ours: true,
    },
    "allowed-hosts": { ...allowedHosts, ours: true },
    "ready-file": {
      ...freeText("FILE", "the path of a file"),
      default: "none",
      about:
        "JSON with the URLs of all listeners and the pid, written when requests are taken: complete, or not there.",
      ours: true,
    },
    "exit-with-parent": {
      ...onlyOn,
      default: "off",
      about: "Ends in order when whoever started it has gone away, however that happened.",
      ours: true,
    },
    "api-key": {
      ...texts("KEY", "one or more keys"),
      default: "none",
      about: "Requests to /v1 and the like must carry one of these keys. Also taken from VLLM_API_KEY.",
    },
  }),
  ...frontLimitOptions,
  ...inGroup("Server", {
    "enable-request-id-headers": { ...toggle, default: "false", about: "Answers carry X-Request-Id." },
    "disable-uvicorn-access-log": { ...toggle, default: "false", about: "No line per HTTP request." },
    "uvicorn-log-level": {
      ...choice("critical", "error", "warning", "info", "debug", "trace"),
      default: "info",
      about:
        "Above info there is no line per HTTP request, above warning no line for bytes that are no HTTP; below info nothing is added.",
    },
    "disable-fastapi-docs": { ...toggle, default: "false", about: "No /openapi.json, /docs and /redoc." },
    "disable-log-stats": {
      ...onlyOn,
      default: "false",
      about: "No line of statistics every 10 s, and none of vLLM's engine metrics, as in vLLM.",
    },
    "show-hidden-metrics-for-version": {
      ...version,
      default: "none",
      about: "Show metrics hidden since this version, if it is the minor version before the profile's. 0.33 has none.",
    },
    "enable-log-requests": { ...toggle, default: "false", about: "A line per request with its parameters." },
    "enable-prompt-tokens-details": {
      ...toggle,
      default: "false",
      about: "Usage says how many prompt tokens came from the prefix cache.",
    },
    "enable-force-include-usage": { ...toggle, default: "false", about: "Every stream ends with usage." },
    "stream-interval": {
      ...integer(1),
      default: "1",
      about: "Tokens per streamed chunk; the first token always leaves alone.",
    },
    "stream-writes": {
      ...choice(...STREAM_WRITES),
      default: "auto",
      about:
        "How the plain tokens of a step leave: by one native call (batched: Linux, no TLS), one call each, or auto, as can be.",
      ours: true,
    },
    "shutdown-timeout": {
      ...integer(0, 86400),
      default: "0",
      about: "Seconds that running requests get after SIGTERM; 0 aborts them.",
    },
    "max-body-mb": {
      ...number(0, 4096, "min"),
      default: "64",
      about: "Largest request body in MiB; above it 413. vLLM has no limit.",
      ours: true,
    },
    workers: {
      ...integer(1, WORKERS_MAX),
      default: "1",
      about: "Processes that serve on the port, each with engines of its own; Linux only: docs/workers.md.",
      ours: true,
    },
  }),
  ...inGroup("Scheduler", {
    "data-parallel-size": {
      ...integer(1, 256),
      default: "1",
      about:
        "Engines behind this server, each with its own queue and KV pool; requests are balanced as vLLM does. Also -dp.",
    },
    "max-num-seqs": {
      ...integer(1, REQUESTS_MOST),
      default: "by the preset's GPU",
      about: "Most sequences in one step.",
    },
    "max-num-active-seqs": {
      ...integer(1, REQUESTS_MOST),
      default: "max-num-seqs",
      about: "Most requests that admission lets run; at most max-num-seqs.",
    },
    "max-num-batched-tokens": { ...humanInteger(1), default: "by the preset's GPU", about: "Most tokens in one step." },
    "max-num-scheduled-tokens": {
      ...humanInteger(1),
      default: "max-num-batched-tokens",
      about: "Token budget of a step; at most max-num-batched-tokens.",
    },
    "scheduling-policy": {
      ...choice("fcfs", "priority"),
      default: "fcfs",
      about: "Who runs first: by arrival, or by the request's priority (a smaller value first).",
    },
    "enable-chunked-prefill": { ...toggle, default: "true", about: "A long prompt may be spread over several steps." },
    "async-scheduling": { ...toggle, default: "true", about: "Plan the next step while one runs." },
    "long-prefill-token-threshold": {
      ...integer(0),
      default: "0",
      about: "Most prompt tokens of one request per step while others wait or run; 0 is off.",
    },
    "long-prefill-token-threshold-adaptive": {
      ...toggle,
      default: "false",
      about: "Never less than a fair share of the token budget.",
    },
    "prefill-schedule-interval": {
      ...integer(1),
      default: "1",
      about: "Prefill only in every n-th step; those between decode alone.",
    },
    "scheduler-reserve-full-isl": {
      ...toggle,
      default: "true",
      about: "Admit a request only when its whole prompt fits into the free blocks.",
    },
    watermark: { ...number(0, 1, "max"), default: "0", about: "Share of the KV blocks that admission leaves free." },
  }),
  ...inGroup("KV cache", {
    "block-size": { ...integer(1, 65536), default: "16", about: "Tokens per KV block." },
    "num-gpu-blocks-override": {
      ...integer(1),
      default: "none",
      about: "Size of the KV pool in blocks, in place of the preset's. One block is set aside.",
    },
    "gpu-memory-utilization": {
      ...number(0, 1, "min"),
      default: "0.92",
      about: "Share of the preset's GPU memory; what the weights leave of it is the KV pool.",
    },
    "enable-prefix-caching": {
      ...toggle,
      default: "true",
      about: "Requests with an equal beginning share its blocks.",
    },
  }),
  ...inGroup("LoRA", {
    "enable-lora": { ...toggle, default: "false", about: "LoRA adapters may be used; how many at once, is max-loras." },
    "max-loras": {
      ...integer(1, ADAPTERS_MOST),
      default: "1",
      about: "Most different adapters that run at once; requests for others are passed over until one is free.",
    },
    "lora-modules": {
      ...loraModules,
      default: "none",
      about: "Adapters as name=path or JSON; a request names one in place of the model. The path need not exist.",
    },
  }),
  ...deploymentOptions,
  ...stepOptions,
  ...lengthOptions,
  ...inGroup("Stand-in", {
    answers: {
      ...choice("prose", "echo", "prompted-json"),
      default: "prose",
      about:
        "What requests that order nothing are answered with: seeded prose; what the user said last; JSON if the prompt asks for it in words, else prose: docs/structured-output.md.",
      ours: true,
    },
    compat: {
      ...choice("llm-d-inference-sim"),
      metavar: "NAME",
      default: "none",
      about: "Take the flags, environment and YAML keys of another stand-in: docs/migrating.md.",
      ours: true,
    },
    "admin-key": {
      ...freeText("KEY", "a key"),
      default: "none: /admin/config is no path",
      about:
        "Whoever has it may change timing, admission, failures, fixtures and logs of the running server: docs/admin.md.",
      ours: true,
    },
    role: {
      ...choice("vllm", "trtllm-serve"),
      metavar: "ROLE",
      default: "vllm",
      about: `The server to stand in for: ${rolesText()}.`,
      ours: true,
    },
    "metrics-profile": {
      ...choice(...PROFILES.map(profileName)),
      metavar: "VERSION",
      default: profileName(CURRENT),
      about: "The version of vLLM whose metrics are shown, names and labels: docs/metrics.md.",
      ours: true,
    },
    fix: {
      ...namesOf(FIX_NAMES),
      default: "none",
      about: "Known defects of the real server's metrics to repair: docs/metrics.md.",
      ours: true,
    },
    bug: {
      ...namesOf(BUG_NAMES),
      default: "none",
      about: "Defects that the metrics get on purpose, so that a checker finds them: docs/bug-modes.md.",
      ours: true,
    },
    "fake-metrics": {
      ...freeText("JSON", "a JSON object"),
      default: "none",
      about: "What some of vLLM's metrics show instead of what is so: docs/bug-modes.md.",
      ours: true,
    },
    "truth-log": {
      ...freeText("FILE", "the path of a file"),
      default: "none",
      about: "Write what each request really experienced to this file, as JSON Lines: docs/truth-log.md.",
      ours: true,
    },
    "truth-log-max-mb": {
      ...number(0, 1_048_576, "min"),
      default: "256",
      about: "Size in MiB at which the truth log goes on in a new file; the one before becomes FILE.1.",
      ours: true,
    },
    "truth-log-files": {
      ...integer(1, 1000),
      default: "4",
      about: "Files of the truth log that are kept, the one being written included.",
      ours: true,
    },
    "truth-wire": {
      ...toggle,
      default: "off",
      about: "The bytes of answers that a plan of faults disturbed stand in the truth log, too: docs/truth-log.md.",
      ours: true,
    },
    "truth-requests": {
      ...integer(0, 100_000),
      default: String(TRUTH_REQUESTS),
      about:
        "Generations whose truth is kept for GET /understudy/requests after they have ended; 0: none. docs/truth-log.md.",
      ours: true,
    },
    "keep-bodies": {
      ...toggle,
      default: "false",
      about:
        "Keeps what clients sent, the last 1,000 requests with bodies, for GET /understudy/requests?sent=1: docs/truth-log.md.",
      ours: true,
    },
    config: {
      ...freeText("FILE", "the path of a YAML file"),
      default: "none",
      about: "YAML file with these options as keys, without the dashes in front.",
    },
  }),
  ...wireOptions,
  ...tritonOptions,
  ...trtllmOptions,
  ...trtllmServeOptions,
} as const;

export type OptionName = keyof typeof serveOptions;
export type ServeValues = { readonly [Name in OptionName]?: ValueOf<(typeof serveOptions)[Name]> };
