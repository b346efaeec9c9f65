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
  row,
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
    model: row(
      "Model to stand in for; also the first positional argument. Its name chooses the preset of --timing: docs/explanation/timing.md.",
      { lands: "models.model", ...freeText("NAME", "a model name"), default: "the preset's model" },
    ),
    "served-model-name": row(
      "Model names that requests may use. Answers and metrics show the first; Triton's metrics show it as the ensemble.",
      { lands: "models.servedModelNames", ...texts("NAME", "one or more names"), default: "the model" },
    ),
    "max-model-len": row("Maximum tokens of prompt plus answer. auto: as many as the KV pool holds.", {
      lands: "engine.maxModelLen",
      ...modelLen,
      default: "the preset's model",
    }),
    "max-logprobs": row("Maximum number of log probabilities that a request may ask for; -1: no limit.", {
      lands: "openai.requests.maxLogprobs",
      ...integer(-1),
      ...initially(20),
    }),
    seed: row(
      "Seed of all random choices. The same seed and request give the same answer. If set, the same requests in the same order also get the same ids. If not set, ids are unique to each server.",
      { lands: "seed", ...integer(0, 2 ** 32 - 1), initial: null, default: "0" },
    ),
  }),
  ...serveGroup("Server", {
    host: row("Address to listen on. vLLM listens on all interfaces; we do so only with --host 0.0.0.0.", {
      lands: "listen.host",
      ...freeText("ADDRESS", "an address"),
      ...initially("127.0.0.1"),
    }),
    port: row("Port to listen on; 0: any free port.", {
      lands: "listen.port",
      ...integer(0, 65535),
      ...initially(8000),
    }),
    "http2-port": row(
      "Additional port for HTTP/2: with prior knowledge, or by ALPN with --ssl-certfile. 0: any free port.",
      { lands: "listen.http2Port", ...integer(0, 65535), ours: true },
    ),
    "allowed-hosts": { lands: "listen.allowedHosts", ...allowedHosts, ours: true },
    "ready-file": row(
      "Write a JSON file with the URLs of all listeners and the pid once the server accepts requests. It appears complete, never in part.",
      { outside: "the command writes the file", ...freeText("FILE", "the path of a file"), ours: true },
    ),
    "exit-with-parent": row("Shut down when the parent process exits, for any reason.", {
      outside: "the command watches its parent",
      ...onlyOn,
      default: "off",
      ours: true,
    }),
    "api-key": row(
      "Require one of these keys in requests to /v1, /v2, /inference, /cohere and /understudy. VLLM_API_KEY sets one too.",
      { lands: "openai.front.apiKeys", ...texts("KEY", "one or more keys"), initial: [], secret: true },
    ),
  }),
  ...frontLimitOptions,
  ...serveGroup("Server", {
    "enable-request-id-headers": row("Send the header X-Request-Id with answers.", {
      lands: "openai.front.enableRequestIdHeaders",
      ...offAtStart,
    }),
    "disable-uvicorn-access-log": row("Do not log HTTP requests.", { lands: "logs.disableAccessLog", ...offAtStart }),
    "uvicorn-log-level": row(
      "Level of the HTTP log. Above info, requests are not logged; above warning, malformed requests are not either. Below info nothing is added.",
      { feeds: "logs.disableWarnings", ...choice(...LOG_LEVELS), default: "info" },
    ),
    "disable-fastapi-docs": row("Answer 404 on /openapi.json, /docs and /redoc.", {
      lands: "openai.front.disableFastapiDocs",
      ...offAtStart,
    }),
    "disable-log-stats": row("Do not log statistics every 10 s, and omit vLLM's engine metrics, as in vLLM.", {
      lands: "logs.disableLogStats",
      ...onlyOn,
      ...initially(false),
    }),
    "show-hidden-metrics-for-version": row(
      "Show the metrics hidden since this version, if it is the minor version just before the profile's. 0.33 hides none.",
      { feeds: "metrics.showHidden", ...version },
    ),
    "enable-log-requests": row("Log each request with its parameters.", {
      lands: "logs.enableLogRequests",
      ...offAtStart,
    }),
    "enable-prompt-tokens-details": row("Report in usage how many prompt tokens came from the prefix cache.", {
      lands: "openai.answers.enablePromptTokensDetails",
      ...offAtStart,
    }),
    "enable-force-include-usage": row("End every stream with usage.", {
      lands: "openai.answers.enableForceIncludeUsage",
      ...offAtStart,
    }),
    "stream-interval": row("Tokens per streamed chunk. The first token always has its own chunk.", {
      lands: "openai.answers.streamInterval",
      ...integer(1),
      ...initially(1),
    }),
    "stream-writes": row(
      "How the token events of a step are written to sockets. batched: one native call for all (Linux, no TLS); single: one call each; auto: batched if possible.",
      { lands: "listen.streamWrites", ...choice(...STREAM_WRITES), default: "auto", ours: true },
    ),
    "shutdown-timeout": row("Seconds that running requests may continue after SIGTERM; 0: abort them at once.", {
      lands: "shutdownTimeoutS",
      ...integer(0, 86400),
      ...initially(0),
    }),
    "max-body-mb": row("Maximum request body in MiB; larger bodies get 413. vLLM has no limit.", {
      lands: "listen.maxBodyBytes",
      as: bytesOfMib,
      ...number(0, 4096, "min"),
      initial: bytesOfMib(64),
      default: "64",
      ours: true,
    }),
    workers: row(
      "Number of processes that serve the port, each with its own engines. More than 1 needs Linux: docs/how-to/workers.md.",
      { lands: "workers", ...integer(1, WORKERS_MAX), ...initially(1), ours: true },
    ),
  }),
  ...engineOptions,
  ...serveGroup("Server", {
    "enable-tokenizer-info-endpoint": row("Serve the tokenizer's configuration on GET /tokenizer_info.", {
      lands: "openai.front.tokenizerInfo",
      as: onlyTrue,
      ...toggle,
    }),
    "enable-scale-out": row(
      "Not implemented: with it, /inference/v1/generate and the render routes answer 501; without it 403, like vLLM.",
      { lands: "openai.front.scaleOut", as: onlyTrue, ...toggle },
    ),
  }),
  ...stepOptions,
  ...lengthOptions,
  ...ourServeGroup("Stand-in", {
    answers: row(
      "Default text of answers. prose: seeded prose; echo: the user's last message; prompted-json: JSON if the prompt asks for it in words, else prose: docs/how-to/structured-output.md.",
      { feeds: "text.echo", ...choice("prose", "echo", "prompted-json"), default: "prose" },
    ),
    compat: row("Accept the flags, environment and YAML keys of another stand-in: docs/how-to/migrating.md.", {
      outside: "chooses the options that are read",
      ...choice("llm-d-inference-sim"),
      metavar: "NAME",
    }),
    "admin-key": row(
      "Key that clients need to change timing, admission, failures, fixtures and logs of the running server: docs/how-to/admin.md.",
      {
        outside: "the command gives it to the routes of the admin",
        ...freeText("KEY", "a key"),
        default: "none: /admin/config answers 404",
        secret: true,
      },
    ),
    role: row(`Server to stand in for: ${rolesText()}.`, {
      lands: "role",
      ...choice("vllm", "trtllm-serve", "vllm-engine"),
      metavar: "ROLE",
      ...initially("vllm"),
    }),
    "metrics-profile": row(
      "Version of vLLM whose metric names and labels are used, or its front end in Rust: docs/reference/metrics.md.",
      {
        lands: "metrics.profile",
        as: profileNamed,
        ...choice(...PROFILES.map(profileName)),
        metavar: "VERSION",
        initial: CURRENT,
        default: profileName(CURRENT),
      },
    ),
    fix: row("Known defects of the real server's metrics that are repaired: docs/reference/metrics.md.", {
      lands: "engine.fixes",
      ...namesOf(FIX_NAMES),
    }),
    bug: row("Defects to add to the metrics, to test a checker: docs/reference/bug-modes.md.", {
      lands: "metrics.bugs",
      ...namesOf(BUG_NAMES),
      initial: [],
    }),
    "fake-metrics": row(
      "Made-up values for some of vLLM's metrics, in place of the true ones: docs/how-to/bug-modes.md.",
      { feeds: "metrics.fakes", ...freeText("JSON", "a JSON object") },
    ),
    "truth-log": row(
      "Write the true times and events of each request to this file, as JSON Lines: docs/reference/truth-log.md.",
      { lands: "truth.log.file", ...freeText("FILE", "the path of a file") },
    ),
    "truth-log-max-mb": row(
      "Size in MiB at which the truth log continues in a new file. The full file becomes FILE.1.",
      {
        lands: "truth.log.maxBytes",
        as: bytesOfMib,
        ...number(0, 1_048_576, "min"),
        initial: bytesOfMib(256),
        default: "256",
      },
    ),
    "truth-log-files": row("Files of the truth log to keep, including the current one.", {
      lands: "truth.log.files",
      ...integer(1, 1000),
      ...initially(4),
    }),
    "truth-wire": row("Also write the bytes of disturbed answers to the truth log: docs/reference/truth-log.md.", {
      lands: "truth.log.wire",
      ...toggle,
      initial: false,
      default: "off",
    }),
    "truth-requests": row(
      "Finished generations to keep for GET /understudy/requests; 0: none. docs/reference/truth-log.md.",
      { lands: "truth.requests", ...integer(0, 100_000), ...initially(TRUTH_REQUESTS) },
    ),
    "keep-bodies": row(
      "Keep the last 1,000 requests with their bodies for GET /understudy/requests?sent=1: docs/reference/truth-log.md.",
      { lands: "truth.keepBodies", ...offAtStart },
    ),
  }),
  ...serveGroup("Stand-in", {
    config: row("YAML file whose keys are these options without leading dashes.", {
      outside: "names the file that other options are read from",
      ...freeText("FILE", "the path of a YAML file"),
    }),
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
