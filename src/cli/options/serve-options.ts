/**
 * The table of the options of `understudy serve`. Command line, environment, configuration file, help text and docs all use
 * this table.
 */

import { rolesText } from "../../app/config/roles.ts";
import { FIX_NAMES } from "../../engine/config/engine-config.ts";
import { TRUTH_REQUESTS } from "../../engine/timing/device-defaults.ts";
import { LOG_LEVELS } from "../../kernel/kernel-config.ts";
import { BUG_NAMES } from "../../metrics/config/bug-names.ts";
import { CURRENT, PROFILES, profileName } from "../../metrics/config/metrics-profiles.ts";
import { STREAM_WRITES } from "../../wire/lanes/stream-write-modes.ts";
import { engineOptions, joinOptions, kvEventsOptions } from "./engine-options.ts";
import { allowedHosts, frontLimitOptions } from "./front-limit-options.ts";
import { bytesOfMib, initially, offAtStart, onlyTrue, ourServeGroup, serveGroup } from "./landing.ts";
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
import { derivedTritonOptions } from "./triton-options.ts";
import { trtllmOptions, trtllmServeOptions } from "./trtllm-options.ts";
import { wireOptions } from "./wire-options.ts";

/** Maximum number of worker processes of one server. */
const WORKERS_MAX = 64;

const modelLen: Option<number> = {
  ...humanInteger(1),
  accepts: "a whole number of at least 1, also as 8k (8000) or 8K (8192), or auto (-1)",
  read: (texts) => (/^(-1|auto)$/i.test(texts[0] ?? "") ? -1 : humanInteger(1).read(texts)),
};

/** The option --print-config, which every role of the server accepts. */
export const printConfig = {
  outside: "the command prints the configuration",
  ...onlyOn,
  default: "off",
  about:
    "Print the configuration as YAML for --config and exit. Keys after # keep the default that the line shows. Secrets are masked.",
} as const;

const version: Option<string> = {
  ...freeText("VERSION", "a version, as 0.11"),
  read: ([text = ""]) => (/^\d+(\.\d+)*$/.test(text) ? text : undefined),
};

const profileNamed = (name: string) => PROFILES.find((profile) => profileName(profile) === name);

/** The options. A row without `ours` has the name and default of `vllm serve` 0.33. */
export const serveOptions = {
  ...serveGroup("Model", {
    model: {
      lands: "models.model",
      ...freeText("NAME", "a model name"),
      default: "the preset's model",
      about:
        "Model to stand in for; also the first positional argument. Its name chooses the preset of --timing: docs/explanation/timing.md.",
    },
    "served-model-name": {
      lands: "models.servedModelNames",
      ...texts("NAME", "one or more names"),
      default: "the model",
      about:
        "Model names that requests may use. Answers and metrics show the first; Triton's metrics show it as the ensemble.",
    },
    "max-model-len": {
      lands: "engine.maxModelLen",
      ...modelLen,
      default: "the preset's model",
      about: "Maximum tokens of prompt plus answer. auto: as many as the KV pool holds.",
    },
    "max-logprobs": {
      lands: "openai.requests.maxLogprobs",
      ...integer(-1),
      ...initially(20),
      about: "Maximum number of log probabilities that a request may ask for; -1: no limit.",
    },
    seed: {
      lands: "seed",
      ...integer(0, 2 ** 32 - 1),
      initial: null,
      default: "0",
      about:
        "Seed of all random choices. The same seed and request give the same answer. If set, the same requests in the same order also get the same ids. If not set, ids are unique to each server.",
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
      about: "Port to listen on; 0: any free port.",
    },
    "http2-port": {
      lands: "listen.http2Port",
      ...integer(0, 65535),
      about: "Additional port for HTTP/2: with prior knowledge, or by ALPN with --ssl-certfile. 0: any free port.",
      ours: true,
    },
    "allowed-hosts": { lands: "listen.allowedHosts", ...allowedHosts, ours: true },
    "ready-file": {
      outside: "the command writes the file",
      ...freeText("FILE", "the path of a file"),
      about:
        "Write a JSON file with the URLs of all listeners and the pid once the server accepts requests. It appears complete, never in part.",
      ours: true,
    },
    "exit-with-parent": {
      outside: "the command watches its parent",
      ...onlyOn,
      default: "off",
      about: "Shut down when the parent process exits, for any reason.",
      ours: true,
    },
    "api-key": {
      lands: "openai.front.apiKeys",
      ...texts("KEY", "one or more keys"),
      initial: [],
      about:
        "Require one of these keys in requests to /v1, /v2, /inference, /cohere and /understudy. VLLM_API_KEY sets one too.",
      secret: true,
    },
  }),
  ...frontLimitOptions,
  ...serveGroup("Server", {
    "enable-request-id-headers": {
      lands: "openai.front.enableRequestIdHeaders",
      ...offAtStart,
      about: "Send the header X-Request-Id with answers.",
    },
    "disable-uvicorn-access-log": {
      lands: "logs.disableAccessLog",
      ...offAtStart,
      about: "Do not log HTTP requests.",
    },
    "uvicorn-log-level": {
      feeds: "logs.disableWarnings",
      ...choice(...LOG_LEVELS),
      default: "info",
      about:
        "Level of the HTTP log. Above info, requests are not logged; above warning, malformed requests are not either. Below info nothing is added.",
    },
    "disable-fastapi-docs": {
      lands: "openai.front.disableFastapiDocs",
      ...offAtStart,
      about: "Answer 404 on /openapi.json, /docs and /redoc.",
    },
    "disable-log-stats": {
      lands: "logs.disableLogStats",
      ...onlyOn,
      ...initially(false),
      about: "Do not log statistics every 10 s, and omit vLLM's engine metrics, as in vLLM.",
    },
    "show-hidden-metrics-for-version": {
      feeds: "metrics.showHidden",
      ...version,
      about:
        "Show the metrics hidden since this version, if it is the minor version just before the profile's. 0.33 hides none.",
    },
    "enable-log-requests": {
      lands: "logs.enableLogRequests",
      ...offAtStart,
      about: "Log each request with its parameters.",
    },
    "enable-prompt-tokens-details": {
      lands: "openai.answers.enablePromptTokensDetails",
      ...offAtStart,
      about: "Report in usage how many prompt tokens came from the prefix cache.",
    },
    "enable-force-include-usage": {
      lands: "openai.answers.enableForceIncludeUsage",
      ...offAtStart,
      about: "End every stream with usage.",
    },
    "stream-interval": {
      lands: "openai.answers.streamInterval",
      ...integer(1),
      ...initially(1),
      about: "Tokens per streamed chunk. The first token always has its own chunk.",
    },
    "stream-writes": {
      lands: "listen.streamWrites",
      ...choice(...STREAM_WRITES),
      default: "auto",
      about:
        "How the token events of a step are written to sockets. batched: one native call for all (Linux, no TLS); single: one call each; auto: batched if possible.",
      ours: true,
    },
    "shutdown-timeout": {
      lands: "shutdownTimeoutS",
      ...integer(0, 86400),
      ...initially(0),
      about: "Seconds that running requests may continue after SIGTERM; 0: abort them at once.",
    },
    "max-body-mb": {
      lands: "listen.maxBodyBytes",
      as: bytesOfMib,
      ...number(0, 4096, "min"),
      initial: bytesOfMib(64),
      default: "64",
      about: "Maximum request body in MiB; larger bodies get 413. vLLM has no limit.",
      ours: true,
    },
    workers: {
      lands: "workers",
      ...integer(1, WORKERS_MAX),
      ...initially(1),
      about:
        "Number of processes that serve the port, each with its own engines. More than 1 needs Linux: docs/how-to/workers.md.",
      ours: true,
    },
  }),
  ...engineOptions,
  ...serveGroup("Server", {
    "enable-tokenizer-info-endpoint": {
      lands: "openai.front.tokenizerInfo",
      as: onlyTrue,
      ...toggle,
      about: "Serve the tokenizer's configuration on GET /tokenizer_info.",
    },
    "enable-scale-out": {
      lands: "openai.front.scaleOut",
      as: onlyTrue,
      ...toggle,
      about:
        "Not implemented: with it, /inference/v1/generate and the render routes answer 501; without it 403, like vLLM.",
    },
  }),
  ...stepOptions,
  ...lengthOptions,
  ...ourServeGroup("Stand-in", {
    answers: {
      feeds: "text.echo",
      ...choice("prose", "echo", "prompted-json"),
      default: "prose",
      about:
        "Default text of answers. prose: seeded prose; echo: the user's last message; prompted-json: JSON if the prompt asks for it in words, else prose: docs/how-to/structured-output.md.",
    },
    compat: {
      outside: "chooses the options that are read",
      ...choice("llm-d-inference-sim"),
      metavar: "NAME",
      about: "Accept the flags, environment and YAML keys of another stand-in: docs/how-to/migrating.md.",
    },
    "admin-key": {
      outside: "the command gives it to the routes of the admin",
      ...freeText("KEY", "a key"),
      default: "none: /admin/config answers 404",
      about:
        "Key that clients need to change timing, admission, failures, fixtures and logs of the running server: docs/how-to/admin.md.",
      secret: true,
    },
    role: {
      lands: "role",
      ...choice("vllm", "trtllm-serve", "vllm-engine"),
      metavar: "ROLE",
      ...initially("vllm"),
      about: `Server to stand in for: ${rolesText()}.`,
    },
    "metrics-profile": {
      lands: "metrics.profile",
      as: profileNamed,
      ...choice(...PROFILES.map(profileName)),
      metavar: "VERSION",
      initial: CURRENT,
      default: profileName(CURRENT),
      about:
        "Version of vLLM whose metric names and labels are used, or its front end in Rust: docs/reference/metrics.md.",
    },
    fix: {
      lands: "engine.fixes",
      ...namesOf(FIX_NAMES),
      about: "Known defects of the real server's metrics that are repaired: docs/reference/metrics.md.",
    },
    bug: {
      lands: "metrics.bugs",
      ...namesOf(BUG_NAMES),
      initial: [],
      about: "Defects to add to the metrics, to test a checker: docs/reference/bug-modes.md.",
    },
    "fake-metrics": {
      feeds: "metrics.fakes",
      ...freeText("JSON", "a JSON object"),
      about: "Made-up values for some of vLLM's metrics, in place of the true ones: docs/how-to/bug-modes.md.",
    },
    "truth-log": {
      lands: "truth.log.file",
      ...freeText("FILE", "the path of a file"),
      about:
        "Write the true times and events of each request to this file, as JSON Lines: docs/reference/truth-log.md.",
    },
    "truth-log-max-mb": {
      lands: "truth.log.maxBytes",
      as: bytesOfMib,
      ...number(0, 1_048_576, "min"),
      initial: bytesOfMib(256),
      default: "256",
      about: "Size in MiB at which the truth log continues in a new file. The full file becomes FILE.1.",
    },
    "truth-log-files": {
      lands: "truth.log.files",
      ...integer(1, 1000),
      ...initially(4),
      about: "Files of the truth log to keep, including the current one.",
    },
    "truth-wire": {
      lands: "truth.log.wire",
      ...toggle,
      initial: false,
      default: "off",
      about: "Also write the bytes of disturbed answers to the truth log: docs/reference/truth-log.md.",
    },
    "truth-requests": {
      lands: "truth.requests",
      ...integer(0, 100_000),
      ...initially(TRUTH_REQUESTS),
      about: "Finished generations to keep for GET /understudy/requests; 0: none. docs/reference/truth-log.md.",
    },
    "keep-bodies": {
      lands: "truth.keepBodies",
      ...offAtStart,
      about:
        "Keep the last 1,000 requests with their bodies for GET /understudy/requests?sent=1: docs/reference/truth-log.md.",
    },
  }),
  ...serveGroup("Stand-in", {
    config: {
      outside: "names the file that other options are read from",
      ...freeText("FILE", "the path of a YAML file"),
      about: "YAML file whose keys are these options without leading dashes.",
    },
    "print-config": { ...printConfig, ours: true },
  }),
  ...wireOptions,
  ...derivedTritonOptions,
  ...trtllmOptions,
  ...trtllmServeOptions,
  ...joinOptions,
  ...kvEventsOptions,
} as const;

export type OptionName = keyof typeof serveOptions;
export type ServeValues = { readonly [Name in OptionName]?: ValueOf<(typeof serveOptions)[Name]> };
