/** Options of requests and answers: tokenizer, prepared answers, faults, CORS, limits of the queue, and fields of answers. */

import { parsedJson } from "../../base/json-object.ts";
import { durations } from "../../engine/timing/parse-timing.ts";
import { FAILURE_TYPES, type FailureType } from "../../faults/failure-types.ts";
import { isFaultName } from "../../faults/ids.ts";
import type { KvTransferTime } from "../../kernel/kernel-config.ts";
import { DEFAULT_REQUEST_ORDERS, REQUEST_ORDERS } from "../../servers/openai/request/request-orders.ts";
import { SAMPLING_DEFAULTS, soundDefaults } from "../../servers/openai/request/sampling-defaults.ts";
import { REASONING_FIELDS } from "../../text/grammar/parsers.ts";
import { parseToolHabits, type ToolHabits } from "../../text/grammar/tool-habits.ts";
import { initially, offAtStart, onlyTrue, ourServeGroup, serveGroup, unlessEmpty } from "./landing.ts";
import {
  choice,
  freeText,
  integer,
  jsonObject,
  namesOf,
  number,
  type Option,
  one,
  row,
  texts,
  toggle,
} from "./option.ts";

/** Makes an option for a JSON list of strings, the form in which vLLM's options take lists. */
const jsonTexts = (what: string) =>
  one<readonly string[]>("JSON", `a JSON list of ${what}, as ["*"]`, (given) => {
    const value = parsedJson(given);
    return Array.isArray(value) && value.every((text) => typeof text === "string") ? value : undefined;
  });

const faultNames: Option<readonly string[]> = {
  ...texts("ID", "ids of faults (docs/reference/faults.md), as B8 E7, or B* for all with a letter"),
  read: (names) => (names.every(isFaultName) ? names : undefined),
};

const generationConfig = jsonObject(
  `a JSON object, as {"temperature": 0.2, "max_new_tokens": 100}, with numbers for ${SAMPLING_DEFAULTS.join(", ")}`,
  soundDefaults,
);

const toolHabits = one<ToolHabits>(
  "NAME=VALUE,…",
  "one or more of integers=0:100, numbers=0:1, items=1:5 (bounds; items up to 100), optional=0.5, inner=0.5, another=0.25 (shares), joined by commas",
  parseToolHabits,
);

const transferTime = one<KvTransferTime>(
  "NAME=TIME,…",
  "one or more of base=10ms, token=5us, deviation=2ms, step=20ms, joined by commas",
  (given) => {
    const read = durations("a transfer", given, [], ["base", "token", "deviation", "step"]);
    if ("error" in read) return undefined;
    const { base = 0, token = 0, deviation = 0, step = 0 } = read.us;
    return { baseUs: base, tokenUs: token, deviationUs: deviation, stepUs: step };
  },
);

export const wireOptions = {
  ...serveGroup("Model", {
    tokenizer: row(
      "Tokenizer and chat template of a model: token counts, prompts, cache hits and streamed pieces are then the model's.",
      {
        lands: "text.tokenizer",
        ...freeText("DIR", "a Hugging Face folder with tokenizer.json and tokenizer_config.json"),
        default: "the built-in vocabulary",
      },
    ),
    "override-generation-config": row(
      `Sampling defaults (${SAMPLING_DEFAULTS.slice(1).join(", ")}); max_new_tokens limits the output tokens.`,
      { lands: "openai.requests.generation", ...generationConfig, default: "{}" },
    ),
  }),
  ...ourServeGroup("Stand-in", {
    script: row("File of scripted answers for matching requests: docs/how-to/scripts.md.", {
      lands: "text.script",
      ...freeText("FILE", "a file of scripted answers"),
    }),
  }),
  ...serveGroup("Server", {
    "reasoning-parser": row(
      "Begin chat answers with reasoning, which this parser splits off. Accepts vLLM's names: docs/how-to/reasoning.md.",
      { feeds: "text.reasoningParser", ...freeText("NAME", "a reasoning parser of vLLM") },
    ),
    "tool-call-parser": row(
      "Parser that finds tool calls in the generated text. Accepts vLLM's names: docs/how-to/tools.md.",
      { feeds: "text.toolCallParser", ...freeText("NAME", "a tool parser of vLLM") },
    ),
    "enable-auto-tool-choice": row(
      'Allow tool_choice "auto", by which the model decides whether to call a tool. Needs --tool-call-parser.',
      { lands: "openai.answers.autoToolChoice", ...toggle },
    ),
  }),
  ...ourServeGroup("Stand-in", {
    "tool-call-share": row('Share of answers, 0 to 1, that call a tool if tool_choice is "auto".', {
      lands: "openai.answers.toolCallShare",
      ...number(0, 1),
      default: "0.5",
    }),
    "tool-arguments": row(
      "Ranges for generated tool arguments that their schema does not restrict: docs/how-to/tools.md.",
      { lands: "openai.answers.toolHabits", ...toolHabits },
    ),
    "reasoning-field": row(
      "Name of the field with the reasoning in chat messages and deltas. Older clients expect reasoning_content: docs/how-to/reasoning.md.",
      {
        lands: "openai.answers.reasoningField",
        ...choice(...REASONING_FIELDS),
        metavar: "NAME",
        default: "reasoning; with --role trtllm-serve reasoning_content",
      },
    ),
    "cache-hit-threshold": row(
      "Share of the prompt, 0 to 1, that must be in the prefix cache. Below it a request ends without a token: docs/how-to/migrating.md.",
      { lands: "queue.cacheHitThreshold", ...number(0, 1), default: "none: a request may still set one" },
    ),
    "kv-transfer-time": row(
      "Time of the KV transfer of a prompt with do_remote_prefill. Also makes do_remote_decode end answers for a remote decode: docs/how-to/migrating.md.",
      { lands: "queue.kvTransferTime", ...transferTime, default: "none: kv_transfer_params have no effect" },
    ),
    "mean-reasoning-tokens": row("Mean length of the reasoning in tokens, with --reasoning-parser.", {
      lands: "openai.answers.meanReasoningTokens",
      ...integer(0, 1_000_000),
      default: "64",
    }),
    "image-tokens": row("Accept images; each counts as this many prompt tokens.", {
      lands: "openai.requests.imageTokens",
      ...integer(1, 100_000),
      default: "none: images are refused, as by a text model",
    }),
    "embedding-dimensions": row(
      "Serve POST /v1/embeddings. Length of its vectors unless the request sets it: docs/reference/dialects.md.",
      {
        lands: "openai.requests.embeddingDimensions",
        ...integer(1, 65_536),
        default: "none: /v1/embeddings answers 404, as for a generating model",
      },
    ),
    "response-store": row(
      "Maximum number of stored responses of /v1/responses. The oldest are dropped first; 0: store none.",
      {
        lands: "openai.requests.responseStore",
        ...integer(0, 1_000_000),
        default: "0, or 10000 with VLLM_ENABLE_RESPONSES_API_STORE=1",
      },
    ),
    fixtures: row("Folder of answers for matching requests. Read again when a file changes: docs/how-to/fixtures.md.", {
      lands: "text.fixtures",
      ...freeText("DIR", "a folder of YAML files"),
    }),
    "replay-timing": row(
      "Times of fixtures that a proxy recorded. recorded: their own times; scheduled: the engine's step times.",
      { lands: "text.replayTiming", ...choice("recorded", "scheduled"), default: "recorded" },
    ),
    dataset: row(
      "Table of answers by the hash of the prompt. Other prompts get a row of fitting length: docs/how-to/dataset.md.",
      { lands: "text.dataset.file", ...freeText("FILE", "a SQLite file") },
    ),
    "dataset-table": row("Name of the table in --dataset.", {
      lands: "text.dataset.table",
      ...freeText("NAME", "the name of a table"),
      ...initially("llmd"),
    }),
    "dataset-in-memory": row("Read the file of --dataset into memory once, at the start.", {
      lands: "text.dataset.inMemory",
      ...offAtStart,
    }),
    "allow-request-orders": row(
      "Test behavior that a request may ask for: nothing; its own answer; also to stall or kill the engine: docs/how-to/scripts.md.",
      { lands: "openai.requests.requestOrders", ...choice(...REQUEST_ORDERS), default: DEFAULT_REQUEST_ORDERS },
    ),
    "failure-injection-rate": row("Percentage of requests that fail, drawn from the seed: docs/how-to/fixtures.md.", {
      lands: "faults.failureRate",
      ...number(0, 100),
      default: "0",
    }),
    "failure-types": row(`Kinds of failure of --failure-injection-rate: ${FAILURE_TYPES.join(", ")}.`, {
      lands: "faults.failureTypes",
      as: unlessEmpty<FailureType>(),
      ...namesOf(FAILURE_TYPES),
      default: "all",
    }),
    "fault-rate": row("Percentage of answers that get one fault, drawn from the seed: docs/reference/faults.md.", {
      lands: "faults.faultRate",
      ...number(0, 100),
      default: "0",
    }),
    "fault-types": row("Faults of --fault-rate: ids of docs/reference/faults.md, or B* for all with a letter.", {
      lands: "faults.faultTypes",
      as: unlessEmpty<string>(),
      ...faultNames,
      default: "faults of streams that affect no other answer",
    }),
    "fault-plan": row("YAML file of rules for faults of answers. Read again when it changes.", {
      lands: "faults.faultPlan",
      ...freeText("FILE", "a file"),
    }),
  }),
  ...serveGroup("Server", {
    "response-role": row("Role of the message in chat answers.", {
      lands: "openai.answers.responseRole",
      ...freeText("ROLE", "a role"),
      default: "assistant",
    }),
    "fingerprint-mode": row(
      "Content of system_fingerprint. full: version, parallelism and hash; hash: version and hash; custom: --fingerprint-value; none: null.",
      { lands: "openai.answers.fingerprintMode", ...choice("full", "hash", "custom", "none"), default: "full" },
    ),
    "fingerprint-value": row("Value of system_fingerprint with --fingerprint-mode custom.", {
      lands: "openai.answers.fingerprintValue",
      ...freeText("TEXT", "a text"),
    }),
    "return-tokens-as-token-ids": row("Name tokens by id in log probabilities, unless the request sets it.", {
      lands: "openai.answers.tokensAsIds",
      ...toggle,
    }),
    "enable-server-load-tracking": row("Count running requests for GET /load.", {
      lands: "openai.front.trackServerLoad",
      ...toggle,
    }),
    "enable-per-request-metrics": row("Add the times of the request to answers with one choice.", {
      lands: "openai.answers.perRequestMetrics",
      ...toggle,
    }),
    "sse-keep-alive-interval": row("Seconds of silence after which a stream gets an SSE comment; 0: never.", {
      lands: "openai.answers.keepAliveS",
      ...integer(0, 86_400),
      default: "0",
    }),
    "allowed-origins": row("Origins of web pages that may call the server (CORS).", {
      lands: "openai.front.cors.origins",
      ...jsonTexts("origins"),
      default: "[]",
    }),
    "allowed-methods": row("Methods that pages of --allowed-origins may use.", {
      lands: "openai.front.cors.methods",
      ...jsonTexts("methods"),
      default: '["*"]',
    }),
    "allowed-headers": row("Headers that pages of --allowed-origins may send.", {
      lands: "openai.front.cors.headers",
      ...jsonTexts("header names"),
      default: '["*"]',
    }),
    "allow-credentials": row("Allow pages of --allowed-origins to send cookies.", {
      lands: "openai.front.cors.credentials",
      as: onlyTrue,
      ...toggle,
    }),
  }),
  ...serveGroup("Scheduler", {
    "max-num-queued-reqs": row("Maximum requests in the engine, running or waiting; more get 503.", {
      lands: "queue.maxNumQueuedReqs",
      ...integer(0),
    }),
    "max-num-queued-tokens": row(
      "Maximum prompt tokens that are not yet computed; at this number, new requests get 503.",
      { lands: "queue.maxNumQueuedTokens", ...integer(0) },
    ),
  }),
} as const;
