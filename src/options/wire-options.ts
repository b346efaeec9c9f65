/** Which options shape what stands on the wire: tokenizer, content on order, CORS, queue limits, what answers carry. */
import { FAILURE_TYPES } from "../config/failures.ts";
import { isFaultName } from "../config/faults.ts";
import { REASONING_PARSERS, TOOL_PARSERS } from "../config/parsers.ts";
import { DEFAULT_REQUEST_ORDERS, REQUEST_ORDERS } from "../config/request-orders.ts";
import { SAMPLING_DEFAULTS, soundDefaults } from "../config/sampling-defaults.ts";
import { durations } from "../config/timing/parse-timing.ts";
import { parseToolHabits, type ToolHabits } from "../config/tool-habits.ts";
import type { KvTransferTime } from "../config/types.ts";
import { choice, freeText, integer, namesOf, number, type Option, texts, toggle } from "./option.ts";

/** A JSON list of texts, as vLLM takes it. */
function jsonTexts(what: string): Option<readonly string[]> {
  return {
    arity: "one",
    accepts: `a JSON list of ${what}, as ["*"]`,
    metavar: "JSON",
    read: ([given = ""]) => {
      const value = json(given);
      return Array.isArray(value) && value.every((one) => typeof one === "string") ? value : undefined;
    },
  };
}

const faultNames: Option<readonly string[]> = {
  ...texts("ID", "ids of faults (docs/faults.md), as B8 E7, or B* for those of a letter"),
  read: (names) => (names.every(isFaultName) ? names : undefined),
};

const generationConfig: Option<Readonly<Record<string, unknown>>> = {
  arity: "one",
  accepts: `a JSON object, as {"temperature": 0.2, "max_new_tokens": 100}, with numbers for ${SAMPLING_DEFAULTS.join(", ")}`,
  metavar: "JSON",
  read: ([given = ""]) => {
    const value = json(given);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    if (!soundDefaults(value as Readonly<Record<string, unknown>>)) return undefined;
    return value as Readonly<Record<string, unknown>>;
  },
};

const toolHabits: Option<ToolHabits> = {
  arity: "one",
  accepts:
    "one or more of integers=0:100, numbers=0:1, items=1:5 (bounds; items up to 100), optional=0.5, inner=0.5, another=0.25 (shares), joined by commas",
  metavar: "NAME=VALUE,…",
  read: ([given = ""]) => parseToolHabits(given),
};

const transferTime: Option<KvTransferTime> = {
  arity: "one",
  accepts: "one or more of base=10ms, token=5us, deviation=2ms, step=20ms, joined by commas",
  metavar: "NAME=TIME,…",
  read: ([given = ""]) => {
    const read = durations("a transfer", given, [], ["base", "token", "deviation", "step"]);
    if ("error" in read) return undefined;
    const { base = 0, token = 0, deviation = 0, step = 0 } = read.us;
    return { baseUs: base, tokenUs: token, deviationUs: deviation, stepUs: step };
  },
};

function json(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch {
    return undefined;
  }
}

const group = "Server";

export const wireOptions = {
  tokenizer: {
    ...freeText("DIR", "a Hugging Face folder with tokenizer.json and tokenizer_config.json"),
    group: "Model",
    default: "the built-in vocabulary",
    about:
      "The model's own tokenizer and chat template: counts, prompts, cache hits and pieces are those of the model.",
  },
  "override-generation-config": {
    ...generationConfig,
    group: "Model",
    default: "{}",
    about: `Sampling defaults (${SAMPLING_DEFAULTS.slice(1).join(", ")}), and with max_new_tokens the most output tokens.`,
  },
  script: {
    ...freeText("FILE", "a file of scripted answers"),
    group: "Stand-in",
    default: "none",
    about: "Answers on order: docs/scripts.md.",
    ours: true,
  },
  "reasoning-parser": {
    ...choice(...REASONING_PARSERS),
    group,
    default: "none",
    about: "Answers begin with thinking, which is split off as this parser does: docs/reasoning.md.",
  },
  "tool-call-parser": {
    ...choice(...TOOL_PARSERS),
    group,
    default: "none",
    about: "How the model writes tool calls, and how they are found in its text: docs/tools.md.",
  },
  "enable-auto-tool-choice": {
    ...toggle,
    group,
    default: "false",
    about: "Requests may leave open whether a tool is called; needs --tool-call-parser.",
  },
  "tool-call-share": {
    ...number(0, 1),
    group: "Stand-in",
    default: "0.5",
    about: "Share of the answers that call a tool where the request leaves that open.",
    ours: true,
  },
  "tool-arguments": {
    ...toolHabits,
    group: "Stand-in",
    default: "none",
    about: "What arguments of tool calls are drawn from where their schema leaves it open: docs/tools.md.",
    ours: true,
  },
  "cache-hit-threshold": {
    ...number(0, 1),
    group: "Stand-in",
    default: "none: nor do requests name one",
    about:
      "A request that finds less of its prompt in the prefix cache, from 0 to 1, ends without a token: docs/migrating.md.",
    ours: true,
  },
  "kv-transfer-time": {
    ...transferTime,
    group: "Stand-in",
    default: "none: kv_transfer_params mean nothing",
    about:
      "How long a prompt with do_remote_prefill takes to come from elsewhere; answers to do_remote_decode say that they go on elsewhere: docs/migrating.md.",
    ours: true,
  },
  "mean-reasoning-tokens": {
    ...integer(0, 1_000_000),
    group: "Stand-in",
    default: "64",
    about: "Mean length of the thinking with --reasoning-parser.",
    ours: true,
  },
  "image-tokens": {
    ...integer(1, 100_000),
    group: "Stand-in",
    default: "none: images are refused, as by a model of text",
    about: "Images are taken, and each counts as so many tokens of its prompt.",
    ours: true,
  },
  "embedding-dimensions": {
    ...integer(1, 65_536),
    group: "Stand-in",
    default: "none: /v1/embeddings is no path, as with a model that writes",
    about: "POST /v1/embeddings gives vectors of so many numbers where a request does not say: docs/dialects.md.",
    ours: true,
  },
  "response-store": {
    ...integer(0, 1_000_000),
    group: "Stand-in",
    default: "0, or 10000 with VLLM_ENABLE_RESPONSES_API_STORE=1",
    about: "Most responses of /v1/responses that are kept, the oldest go first; 0 keeps none.",
    ours: true,
  },
  fixtures: {
    ...freeText("DIR", "a folder of YAML files"),
    group: "Stand-in",
    default: "none",
    about: "Answers to the requests that match, read anew when a file changes: docs/fixtures.md.",
    ours: true,
  },
  dataset: {
    ...freeText("FILE", "a SQLite file"),
    group: "Stand-in",
    default: "none",
    about: "Rows that answer the prompts whose hash they have, and others with one that fits: docs/dataset.md.",
    ours: true,
  },
  "dataset-table": {
    ...freeText("NAME", "the name of a table"),
    group: "Stand-in",
    default: "llmd",
    about: "The table of --dataset.",
    ours: true,
  },
  "dataset-in-memory": {
    ...toggle,
    group: "Stand-in",
    default: "false",
    about: "The file of --dataset is read into memory at the start, and not looked at again.",
    ours: true,
  },
  "allow-request-orders": {
    ...choice(...REQUEST_ORDERS),
    group: "Stand-in",
    default: DEFAULT_REQUEST_ORDERS,
    about:
      "What a request may order: nothing; its own answer; also an engine that stands still or dies: docs/scripts.md.",
    ours: true,
  },
  "failure-injection-rate": {
    ...number(0, 100),
    group: "Stand-in",
    default: "0",
    about: "So many of a hundred requests fail, drawn from the seed: docs/fixtures.md.",
    ours: true,
  },
  "failure-types": {
    ...namesOf(FAILURE_TYPES),
    group: "Stand-in",
    default: "all",
    about: `How they fail: ${FAILURE_TYPES.join(", ")}.`,
    ours: true,
  },
  "fault-rate": {
    ...number(0, 100),
    group: "Stand-in",
    default: "0",
    about: "So many of a hundred answers are disturbed by one fault, drawn from the seed: docs/faults.md.",
    ours: true,
  },
  "fault-types": {
    ...faultNames,
    group: "Stand-in",
    default: "those of streams that reach their own answer alone",
    about: "By which: ids of docs/faults.md, or B* for those of a letter.",
    ours: true,
  },
  "response-role": {
    ...freeText("ROLE", "a role"),
    group,
    default: "assistant",
    about: "Who speaks in chat answers.",
  },
  "fingerprint-mode": {
    ...choice("full", "hash", "custom", "none"),
    group,
    default: "full",
    about:
      "What system_fingerprint says: version, parallelism and hash; the same without parallelism; fingerprint-value; nothing.",
  },
  "fingerprint-value": {
    ...freeText("TEXT", "a text"),
    group,
    default: "none",
    about: "The system_fingerprint with --fingerprint-mode custom.",
  },
  "return-tokens-as-token-ids": {
    ...toggle,
    group,
    default: "false",
    about: "Log probabilities name tokens by id where the request does not say.",
  },
  "enable-server-load-tracking": { ...toggle, group, default: "false", about: "/load counts what is being served." },
  "enable-per-request-metrics": {
    ...toggle,
    group,
    default: "false",
    about: "Answers with one choice carry their own times.",
  },
  "sse-keep-alive-interval": {
    ...integer(0, 86_400),
    group,
    default: "0",
    about: "Streams that are silent for so many seconds get a comment; 0 is never.",
  },
  "allowed-origins": {
    ...jsonTexts("origins"),
    group,
    default: "[]",
    about: "Web pages that may call the server (CORS).",
  },
  "allowed-methods": { ...jsonTexts("methods"), group, default: '["*"]', about: "Methods that such pages may use." },
  "allowed-headers": {
    ...jsonTexts("header names"),
    group,
    default: '["*"]',
    about: "Headers that such pages may send.",
  },
  "allow-credentials": {
    ...toggle,
    group,
    default: "false",
    about: "Web pages of --allowed-origins may send cookies.",
  },
  "max-num-queued-reqs": {
    ...integer(0),
    group: "Scheduler",
    default: "none",
    about: "Most requests in the engine, running or waiting; beyond it 503.",
  },
  "max-num-queued-tokens": {
    ...integer(0),
    group: "Scheduler",
    default: "none",
    about: "Prompt tokens not yet computed at which further requests get 503.",
  },
} as const;
