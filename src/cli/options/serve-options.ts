/** The table of the options of `understudy serve`, from which flags, environment, file, help and documentation follow. */

import { rolesText } from "../../app/config/roles.ts";
import { FIX_NAMES } from "../../engine/config/engine-config.ts";
import { TRUTH_REQUESTS } from "../../engine/timing/device-defaults.ts";
import { LOG_LEVELS } from "../../kernel/kernel-config.ts";
import { BUG_NAMES } from "../../metrics/config/bug-names.ts";
import { CURRENT, PROFILES, profileName } from "../../metrics/config/metrics-profiles.ts";
import { STREAM_WRITES } from "../../wire/lanes/stream-write-modes.ts";
import { engineOptions } from "./engine-options.ts";
import { allowedHosts, frontLimitOptions } from "./front-limit-options.ts";
import { bytesOfMib, initially, onlyTrue, serveGroup } from "./landing.ts";
import { lengthOptions } from "./length-options.ts";

import {
  choice,
  freeText,
  humanInteger,
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

const profileNamed = (name: string) => PROFILES.find((profile) => profileName(profile) === name);

/** Names and defaults without `ours` are those of `vllm serve` 0.33. */
export const serveOptions = {
  ...serveGroup("Model", {
    model: {
      lands: "models.model",
      ...freeText("NAME", "a model name"),
      default: "the preset's model",
      about:
        "Model to stand in for; also the first positional argument. Its name chooses the preset of --timing: docs/timing.md.",
    },
    "served-model-name": {
      lands: "models.servedModelNames",
      ...texts("NAME", "one or more names"),
      default: "the model",
      about:
        "Names that requests may use. The first one stands in answers and metrics, in those of Triton for its ensemble.",
    },
    "max-model-len": {
      lands: "engine.maxModelLen",
      ...modelLen,
      default: "the preset's model",
      about: "Longest prompt plus answer, in tokens. auto: as much as the KV pool holds.",
    },
    "max-logprobs": {
      lands: "openai.requests.maxLogprobs",
      ...integer(-1),
      ...initially(20),
      about: "Most log probabilities that a request may ask for; -1 is no limit.",
    },
    seed: {
      lands: "seed",
      ...integer(0, 2 ** 32 - 1),
      initial: null,
      default: "0",
      about:
        "Seed of everything random. The same seed and request give the same answer. Where it is given, ids repeat too: the same requests in the same order get the same ones. Without it no two servers share an id.",
    },
  }),
  ...serveGroup("Server", {
    host: {
      lands: "listen.host",
      ...freeText("ADDRESS", "an address"),
      ...initially("127.0.0.1"),
      about: "Address to listen on. vLLM listens on all interfaces; we do so only with --host 0.0.0.0.",
    },
    port: {
      lands: "listen.port",
      ...integer(0, 65535),
      ...initially(8000),
      about: "Port to listen on; 0 takes a free one.",
    },
    "http2-port": {
      lands: "listen.http2Port",
      ...integer(0, 65535),
      default: "none",
      about: "Port for HTTP/2, beside the other: without upgrade, or by ALPN with --ssl-certfile; 0 takes a free one.",
      ours: true,
    },
    "allowed-hosts": { lands: "listen.allowedHosts", ...allowedHosts, ours: true },
    "ready-file": {
      outside: "the command writes the file",
      ...freeText("FILE", "the path of a file"),
      default: "none",
      about:
        "JSON with the URLs of all listeners and the pid, written when requests are taken: complete, or not there.",
      ours: true,
    },
    "exit-with-parent": {
      outside: "the command watches its parent",
      ...onlyOn,
      default: "off",
      about: "Ends in order when whoever started it has gone away, however that happened.",
      ours: true,
    },
    "api-key": {
      lands: "openai.front.apiKeys",
      ...texts("KEY", "one or more keys"),
      initial: [],
      default: "none",
      about: "Requests to /v1 and the like must carry one of these keys. Also taken from VLLM_API_KEY.",
    },
  }),
  ...frontLimitOptions,
  ...serveGroup("Server", {
    "enable-request-id-headers": {
      lands: "openai.front.enableRequestIdHeaders",
      ...toggle,
      ...initially(false),
      about: "Answers carry X-Request-Id.",
    },
    "disable-uvicorn-access-log": {
      lands: "logs.disableAccessLog",
      ...toggle,
      ...initially(false),
      about: "No line per HTTP request.",
    },
    "uvicorn-log-level": {
      feeds: "logs.disableWarnings",
      ...choice(...LOG_LEVELS),
      default: "info",
      about:
        "Above info there is no line per HTTP request, above warning no line for bytes that are no HTTP; below info nothing is added.",
    },
    "disable-fastapi-docs": {
      lands: "openai.front.disableFastapiDocs",
      ...toggle,
      ...initially(false),
      about: "No /openapi.json, /docs and /redoc.",
    },
    "disable-log-stats": {
      lands: "logs.disableLogStats",
      ...onlyOn,
      ...initially(false),
      about: "No line of statistics every 10 s, and none of vLLM's engine metrics, as in vLLM.",
    },
    "show-hidden-metrics-for-version": {
      feeds: "metrics.showHidden",
      ...version,
      default: "none",
      about: "Show metrics hidden since this version, if it is the minor version before the profile's. 0.33 has none.",
    },
    "enable-log-requests": {
      lands: "logs.enableLogRequests",
      ...toggle,
      ...initially(false),
      about: "A line per request with its parameters.",
    },
    "enable-prompt-tokens-details": {
      lands: "openai.answers.enablePromptTokensDetails",
      ...toggle,
      ...initially(false),
      about: "Usage says how many prompt tokens came from the prefix cache.",
    },
    "enable-force-include-usage": {
      lands: "openai.answers.enableForceIncludeUsage",
      ...toggle,
      ...initially(false),
      about: "Every stream ends with usage.",
    },
    "stream-interval": {
      lands: "openai.answers.streamInterval",
      ...integer(1),
      ...initially(1),
      about: "Tokens per streamed chunk; the first token always leaves alone.",
    },
    "stream-writes": {
      lands: "listen.streamWrites",
      ...choice(...STREAM_WRITES),
      default: "auto",
      about:
        "How the plain tokens of a step leave: by one native call (batched: Linux, no TLS), one call each, or auto, as can be.",
      ours: true,
    },
    "shutdown-timeout": {
      lands: "shutdownTimeoutS",
      ...integer(0, 86400),
      ...initially(0),
      about: "Seconds that running requests get after SIGTERM; 0 aborts them.",
    },
    "max-body-mb": {
      lands: "listen.maxBodyBytes",
      as: bytesOfMib,
      ...number(0, 4096, "min"),
      initial: bytesOfMib(64),
      default: "64",
      about: "Largest request body in MiB; above it 413. vLLM has no limit.",
      ours: true,
    },
    workers: {
      lands: "workers",
      ...integer(1, WORKERS_MAX),
      ...initially(1),
      about: "Processes that serve on the port, each with engines of its own; Linux only: docs/workers.md.",
      ours: true,
    },
  }),
  ...engineOptions,
  ...serveGroup("Server", {
    "enable-tokenizer-info-endpoint": {
      lands: "openai.front.tokenizerInfo",
      as: onlyTrue,
      ...toggle,
      default: "false",
      about: "GET /tokenizer_info says what the tokenizer's configuration says.",
    },
    "enable-scale-out": {
      lands: "openai.front.scaleOut",
      as: onlyTrue,
      ...toggle,
      default: "false",
      about: "Not built: /inference/v1/generate and the render routes then say so with 501, without it vLLM's 403.",
    },
  }),
  ...stepOptions,
  ...lengthOptions,
  ...serveGroup("Stand-in", {
    answers: {
      feeds: "text.echo",
      ...choice("prose", "echo", "prompted-json"),
      default: "prose",
      about:
        "What requests that order nothing are answered with: seeded prose; what the user said last; JSON if the prompt asks for it in words, else prose: docs/structured-output.md.",
      ours: true,
    },
    compat: {
      outside: "chooses the options that are read",
      ...choice("llm-d-inference-sim"),
      metavar: "NAME",
      default: "none",
      about: "Take the flags, environment and YAML keys of another stand-in: docs/migrating.md.",
      ours: true,
    },
    "admin-key": {
      outside: "the command gives it to the routes of the admin",
      ...freeText("KEY", "a key"),
      default: "none: /admin/config is no path",
      about:
        "Whoever has it may change timing, admission, failures, fixtures and logs of the running server: docs/admin.md.",
      ours: true,
    },
    role: {
      lands: "role",
      ...choice("vllm", "trtllm-serve"),
      metavar: "ROLE",
      ...initially("vllm"),
      about: `The server to stand in for: ${rolesText()}.`,
      ours: true,
    },
    "metrics-profile": {
      lands: "metrics.profile",
      as: profileNamed,
      ...choice(...PROFILES.map(profileName)),
      metavar: "VERSION",
      initial: CURRENT,
      default: profileName(CURRENT),
      about: "The version of vLLM whose metrics are shown, names and labels: docs/metrics.md.",
      ours: true,
    },
    fix: {
      lands: "engine.fixes",
      ...namesOf(FIX_NAMES),
      default: "none",
      about: "Known defects of the real server's metrics to repair: docs/metrics.md.",
      ours: true,
    },
    bug: {
      lands: "metrics.bugs",
      ...namesOf(BUG_NAMES),
      initial: [],
      default: "none",
      about: "Defects that the metrics get on purpose, so that a checker finds them: docs/bug-modes.md.",
      ours: true,
    },
    "fake-metrics": {
      feeds: "metrics.fakes",
      ...freeText("JSON", "a JSON object"),
      default: "none",
      about: "What some of vLLM's metrics show instead of what is so: docs/bug-modes.md.",
      ours: true,
    },
    "truth-log": {
      lands: "truth.log.file",
      ...freeText("FILE", "the path of a file"),
      default: "none",
      about: "Write what each request really experienced to this file, as JSON Lines: docs/truth-log.md.",
      ours: true,
    },
    "truth-log-max-mb": {
      lands: "truth.log.maxBytes",
      as: bytesOfMib,
      ...number(0, 1_048_576, "min"),
      initial: bytesOfMib(256),
      default: "256",
      about: "Size in MiB at which the truth log goes on in a new file; the one before becomes FILE.1.",
      ours: true,
    },
    "truth-log-files": {
      lands: "truth.log.files",
      ...integer(1, 1000),
      ...initially(4),
      about: "Files of the truth log that are kept, the one being written included.",
      ours: true,
    },
    "truth-wire": {
      lands: "truth.log.wire",
      ...toggle,
      initial: false,
      default: "off",
      about: "The bytes of answers that a plan of faults disturbed stand in the truth log, too: docs/truth-log.md.",
      ours: true,
    },
    "truth-requests": {
      lands: "truth.requests",
      ...integer(0, 100_000),
      ...initially(TRUTH_REQUESTS),
      about:
        "Generations whose truth is kept for GET /understudy/requests after they have ended; 0: none. docs/truth-log.md.",
      ours: true,
    },
    "keep-bodies": {
      lands: "truth.keepBodies",
      ...toggle,
      ...initially(false),
      about:
        "Keeps what clients sent, the last 1,000 requests with bodies, for GET /understudy/requests?sent=1: docs/truth-log.md.",
      ours: true,
    },
    config: {
      outside: "names the file that other options are read from",
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
