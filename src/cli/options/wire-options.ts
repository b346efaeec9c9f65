/** The options of requests and answers: tokenizer, prepared answers, faults, CORS, limits of the queue, members of answers. */

import { durations } from "../../engine/timing/parse-timing.ts";
import { FAILURE_TYPES, type FailureType } from "../../faults/failure-types.ts";
import { isFaultName } from "../../faults/ids.ts";
import type { KvTransferTime } from "../../kernel/kernel-config.ts";
import { DEFAULT_REQUEST_ORDERS, REQUEST_ORDERS } from "../../servers/openai/request/request-orders.ts";
import { SAMPLING_DEFAULTS, soundDefaults } from "../../servers/openai/request/sampling-defaults.ts";
import { REASONING_FIELDS } from "../../text/grammar/parsers.ts";
import { parseToolHabits, type ToolHabits } from "../../text/grammar/tool-habits.ts";
import { initially, onlyTrue, ourServeGroup, serveGroup, unlessEmpty } from "./landing.ts";
import { choice, freeText, integer, jsonObject, namesOf, number, type Option, one, texts, toggle } from "./option.ts";

/** A JSON list of texts, as vLLM takes it. */
const jsonTexts = (what: string) =>
  one<readonly string[]>("JSON", `a JSON list of ${what}, as ["*"]`, (given) => {
    try {
      const value: unknown = JSON.parse(given);
      return Array.isArray(value) && value.every((text) => typeof text === "string") ? value : undefined;
    } catch {
      return undefined;
    }
  });

const faultNames: Option<readonly string[]> = {
  ...texts("ID", "ids of faults (docs/faults.md), as B8 E7, or B* for those of a letter"),
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
    tokenizer: {
      lands: "text.tokenizer",
      ...freeText("DIR", "a Hugging Face folder with tokenizer.json and tokenizer_config.json"),
      default: "the built-in vocabulary",
      about:
        "The model's own tokenizer and chat template: counts, prompts, cache hits and pieces are those of the model.",
    },
    "override-generation-config": {
      lands: "openai.requests.generation",
      ...generationConfig,
      default: "{}",
      about: `Sampling defaults (${SAMPLING_DEFAULTS.slice(1).join(", ")}), and with max_new_tokens the most output tokens.`,
    },
  }),
  ...ourServeGroup("Stand-in", {
    script: {
      lands: "text.script",
      ...freeText("FILE", "a file of scripted answers"),
      default: "none",
      about: "Answers on order: docs/scripts.md.",
    },
  }),
  ...serveGroup("Server", {
    "reasoning-parser": {
      feeds: "text.reasoningParser",
      ...freeText("NAME", "a reasoning parser of vLLM"),
      default: "none",
      about: "Chat answers begin with reasoning, which this parser splits off. Any name of vLLM's: docs/reasoning.md.",
    },
    "tool-call-parser": {
      feeds: "text.toolCallParser",
      ...freeText("NAME", "a tool parser of vLLM"),
      default: "none",
      about: "The parser that finds tool calls in the generated text. Any name of vLLM's: docs/tools.md.",
    },
    "enable-auto-tool-choice": {
      lands: "openai.answers.autoToolChoice",
      ...toggle,
      default: "false",
      about: "Requests may leave open whether a tool is called; needs --tool-call-parser.",
    },
  }),
  ...ourServeGroup("Stand-in", {
    "tool-call-share": {
      lands: "openai.answers.toolCallShare",
      ...number(0, 1),
      default: "0.5",
      about: "Share of the answers that call a tool where the request leaves that open.",
    },
    "tool-arguments": {
      lands: "openai.answers.toolHabits",
      ...toolHabits,
      default: "none",
      about: "What arguments of tool calls are drawn from where their schema leaves it open: docs/tools.md.",
    },
    "reasoning-field": {
      lands: "openai.answers.reasoningField",
      ...choice(...REASONING_FIELDS),
      metavar: "NAME",
      default: "reasoning; with --role trtllm-serve reasoning_content",
      about:
        "Field of chat messages and deltas that holds reasoning, as clients of older versions expect it: docs/reasoning.md.",
    },
    "cache-hit-threshold": {
      lands: "queue.cacheHitThreshold",
      ...number(0, 1),
      default: "none: nor do requests name one",
      about:
        "A request that finds less of its prompt in the prefix cache, from 0 to 1, ends without a token: docs/migrating.md.",
    },
    "kv-transfer-time": {
      lands: "queue.kvTransferTime",
      ...transferTime,
      default: "none: kv_transfer_params mean nothing",
      about:
        "How long a prompt with do_remote_prefill takes to come from elsewhere; answers to do_remote_decode say that they go on elsewhere: docs/migrating.md.",
    },
    "mean-reasoning-tokens": {
      lands: "openai.answers.meanReasoningTokens",
      ...integer(0, 1_000_000),
      default: "64",
      about: "Mean length of the thinking with --reasoning-parser.",
    },
    "image-tokens": {
      lands: "openai.requests.imageTokens",
      ...integer(1, 100_000),
      default: "none: images are refused, as by a model of text",
      about: "Images are taken, and each counts as so many tokens of its prompt.",
    },
    "embedding-dimensions": {
      lands: "openai.requests.embeddingDimensions",
      ...integer(1, 65_536),
      default: "none: /v1/embeddings is no path, as with a model that writes",
      about: "POST /v1/embeddings gives vectors of so many numbers where a request does not say: docs/dialects.md.",
    },
    "response-store": {
      lands: "openai.requests.responseStore",
      ...integer(0, 1_000_000),
      default: "0, or 10000 with VLLM_ENABLE_RESPONSES_API_STORE=1",
      about: "Most responses of /v1/responses that are kept, the oldest go first; 0 keeps none.",
    },
    fixtures: {
      lands: "text.fixtures",
      ...freeText("DIR", "a folder of YAML files"),
      default: "none",
      about: "Answers to the requests that match, read anew when a file changes: docs/fixtures.md.",
    },
    "replay-timing": {
      lands: "text.replayTiming",
      ...choice("recorded", "scheduled"),
      default: "recorded",
      about:
        "When fixtures that a proxy has recorded say what they say: at their own times, or as the engine makes it.",
    },
    dataset: {
      lands: "text.dataset.file",
      ...freeText("FILE", "a SQLite file"),
      default: "none",
      about: "Rows that answer the prompts whose hash they have, and others with one that fits: docs/dataset.md.",
    },
    "dataset-table": {
      lands: "text.dataset.table",
      ...freeText("NAME", "the name of a table"),
      ...initially("llmd"),
      about: "The table of --dataset.",
    },
    "dataset-in-memory": {
      lands: "text.dataset.inMemory",
      ...toggle,
      ...initially(false),
      about: "The file of --dataset is read into memory at the start, and not looked at again.",
    },
    "allow-request-orders": {
      lands: "openai.requests.requestOrders",
      ...choice(...REQUEST_ORDERS),
      default: DEFAULT_REQUEST_ORDERS,
      about:
        "What a request may order: nothing; its own answer; also an engine that stands still or dies: docs/scripts.md.",
    },
    "failure-injection-rate": {
      lands: "faults.failureRate",
      ...number(0, 100),
      default: "0",
      about: "So many of a hundred requests fail, drawn from the seed: docs/fixtures.md.",
    },
    "failure-types": {
      lands: "faults.failureTypes",
      as: unlessEmpty<FailureType>(),
      ...namesOf(FAILURE_TYPES),
      default: "all",
      about: `How they fail: ${FAILURE_TYPES.join(", ")}.`,
    },
    "fault-rate": {
      lands: "faults.faultRate",
      ...number(0, 100),
      default: "0",
      about: "So many of a hundred answers are disturbed by one fault, drawn from the seed: docs/faults.md.",
    },
    "fault-types": {
      lands: "faults.faultTypes",
      as: unlessEmpty<string>(),
      ...faultNames,
      default: "those of streams that reach their own answer alone",
      about: "By which: ids of docs/faults.md, or B* for those of a letter.",
    },
    "fault-plan": {
      lands: "faults.faultPlan",
      ...freeText("FILE", "a file"),
      default: "none",
      about: "A YAML file of rules: which answers are disturbed, and how. Read again when it changes.",
    },
  }),
  ...serveGroup("Server", {
    "response-role": {
      lands: "openai.answers.responseRole",
      ...freeText("ROLE", "a role"),
      default: "assistant",
      about: "Who speaks in chat answers.",
    },
    "fingerprint-mode": {
      lands: "openai.answers.fingerprintMode",
      ...choice("full", "hash", "custom", "none"),
      default: "full",
      about:
        "What system_fingerprint says: version, parallelism and hash; the same without parallelism; fingerprint-value; nothing.",
    },
    "fingerprint-value": {
      lands: "openai.answers.fingerprintValue",
      ...freeText("TEXT", "a text"),
      default: "none",
      about: "The system_fingerprint with --fingerprint-mode custom.",
    },
    "return-tokens-as-token-ids": {
      lands: "openai.answers.tokensAsIds",
      ...toggle,
      default: "false",
      about: "Log probabilities name tokens by id where the request does not say.",
    },
    "enable-server-load-tracking": {
      lands: "openai.front.trackServerLoad",
      ...toggle,
      default: "false",
      about: "/load counts what is being served.",
    },
    "enable-per-request-metrics": {
      lands: "openai.answers.perRequestMetrics",
      ...toggle,
      default: "false",
      about: "Answers with one choice carry their own times.",
    },
    "sse-keep-alive-interval": {
      lands: "openai.answers.keepAliveS",
      ...integer(0, 86_400),
      default: "0",
      about: "Streams that are silent for so many seconds get a comment; 0 is never.",
    },
    "allowed-origins": {
      lands: "openai.front.cors.origins",
      ...jsonTexts("origins"),
      default: "[]",
      about: "Web pages that may call the server (CORS).",
    },
    "allowed-methods": {
      lands: "openai.front.cors.methods",
      ...jsonTexts("methods"),
      default: '["*"]',
      about: "Methods that such pages may use.",
    },
    "allowed-headers": {
      lands: "openai.front.cors.headers",
      ...jsonTexts("header names"),
      default: '["*"]',
      about: "Headers that such pages may send.",
    },
    "allow-credentials": {
      lands: "openai.front.cors.credentials",
      as: onlyTrue,
      ...toggle,
      default: "false",
      about: "Web pages of --allowed-origins may send cookies.",
    },
  }),
  ...serveGroup("Scheduler", {
    "max-num-queued-reqs": {
      lands: "queue.maxNumQueuedReqs",
      ...integer(0),
      default: "none",
      about: "Most requests in the engine, running or waiting; beyond it 503.",
    },
    "max-num-queued-tokens": {
      lands: "queue.maxNumQueuedTokens",
      ...integer(0),
      default: "none",
      about: "Prompt tokens not yet computed at which further requests get 503.",
    },
  }),
} as const;
