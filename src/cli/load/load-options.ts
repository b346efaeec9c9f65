/** The options of `understudy load`: one table, with the names that users of vllm bench serve and aiperf type. */

import { DATASET_NAMES, parseThinkTime, THINK_FORM, type ThinkTime } from "../../tools/load/datasets/index.ts";
import { LOAD_DIALECTS } from "../../tools/load/requests/dialects.ts";
import { FLAT_METRICS } from "../../tools/load/vllm-keys.ts";
import {
  choice,
  freeText,
  inGroup,
  integer,
  jsonObject,
  number,
  type OptionRow,
  one,
  onlyOn,
  seconds,
  toggle,
} from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";
import { traceOptions } from "../trace-options.ts";
import {
  headers,
  httpUrl,
  namesFrom,
  numberOrInf,
  pairs,
  percentileList,
  sloList,
  sweep,
  until,
  wholeRange,
} from "./load-forms.ts";

const DAY_S = 86_400;
const tokens = integer(1, 1e7);
const file = freeText("FILE", "a path to write");

const thinkTime = one<ThinkTime>("TIME", THINK_FORM, parseThinkTime);

export const loadOptions = {
  ...inGroup("Target", {
    url: { ...httpUrl, default: "http://127.0.0.1:8000", about: "The server. Also -u, --base-url." },
    backend: {
      ...choice(...LOAD_DIALECTS),
      default: "openai-chat",
      about:
        "The API of the requests: chat, completions, responses, Anthropic's messages, embeddings; of a Triton server generate_stream, infer, or gRPC. Also --endpoint-type chat|completions|responses|messages|embeddings.",
    },
    endpoint: {
      ...freeText("PATH", "a path that begins with /"),
      default: "the backend's",
      about: "Path behind the URL.",
    },
    model: {
      ...freeText("NAME", "a model's name"),
      default: "the first that the server names",
      about: "Also -m, --served-model-name.",
    },
    "api-key": {
      ...freeText("KEY", "a key"),
      default: "OPENAI_API_KEY from the environment; for anthropic-messages ANTHROPIC_API_KEY",
      about: "Sent as Authorization: Bearer, to anthropic-messages also as x-api-key.",
    },
    header: { ...headers, default: "none", about: "More headers; may be given several times." },
    insecure: { ...onlyOn, default: "false", about: "Certificates are not checked." },
    "ssl-ca-certs": { ...freeText("FILE", "a file"), default: "the system's", about: "Certificates to trust." },
  }),
  ...inGroup("Arrivals", {
    "request-rate": {
      ...numberOrInf,
      default: "none: a closed loop",
      about: "Open loop: so many requests a second on average; inf is all at once.",
    },
    "arrival-pattern": {
      ...choice("constant", "poisson", "gamma"),
      default: "poisson",
      about: "How the gaps of an open loop are drawn; gamma with --burstiness.",
    },
    burstiness: {
      ...numberOrInf,
      default: "1",
      about: "Shape of gamma gaps: 1 is Poisson, less comes in bursts, more is more even. Also --arrival-smoothness.",
    },
    "rescale-arrivals": {
      ...onlyOn,
      default: "false",
      about: "Gaps are stretched so that the last request is sent at exactly number / rate, as vllm bench serve does.",
    },
    concurrency: {
      ...integer(1, 65_536),
      default: "1 in a closed loop, none in an open one",
      about: "Requests at once: the closed loop's, or a cap on an open loop. Also --max-concurrency.",
    },
    "ramp-up-strategy": {
      ...choice("linear", "exponential"),
      default: "none",
      about: "The rate grows over the run's requests (without a count: over its duration).",
    },
    "ramp-up-start-rps": { ...number(0, 1e6, "min"), default: "none", about: "Rate at the beginning." },
    "ramp-up-end-rps": { ...number(0, 1e6, "min"), default: "none", about: "Rate at the end." },
    "fixed-schedule": {
      ...toggle,
      default: "true for datasets with times of their own",
      about: "Requests are sent at the dataset's own times.",
    },
    "replay-speedup": {
      ...number(0, 1e6, "min"),
      default: "1",
      about: "The dataset's times pass so many times as fast.",
    },
    "num-prompts": {
      ...integer(1),
      default: "1000 in an open loop, twice the concurrency and at least 10 in a closed one, all of a schedule",
      about: "Requests to send. Also --request-count, --num-requests.",
    },
    duration: {
      ...seconds(0.001, 30 * DAY_S),
      default: "none",
      about: "Sends for so long. Also --benchmark-duration.",
    },
    "grace-period": {
      ...seconds(0, DAY_S),
      default: "30",
      about: "What is under way when the duration is over gets so long; then it is cut and counts as unfinished.",
    },
    "warmup-request-count": {
      ...integer(0, 1e6),
      default: "0",
      about: "Requests before the measured ones, with prompts of their own. Also --num-warmups.",
    },
    "warmup-duration": { ...seconds(0, DAY_S), default: "0", about: "The same by time." },
    sweep: {
      ...sweep,
      default: "none",
      about: "One run after the other at these rates (1,2,4,8) or numbers at once (concurrency:1,2,4).",
    },
    "sweep-until": {
      ...until,
      default: "none",
      about: "The sweep ends with the first run in which fewer requests than the share keep the limits.",
    },
  }),
  ...inGroup("Prompts", {
    "dataset-name": { ...choice(...DATASET_NAMES), default: "random", about: "Where prompts come from: docs/load.md." },
    "dataset-path": { ...freeText("FILE", "a file"), default: "none", about: "File of the dataset." },
    "skip-bad": { ...onlyOn, default: "false", about: "Bad lines are counted and left out." },
    "input-len": { ...tokens, default: "1024", about: "Tokens of a made-up prompt. Also --isl, --random-input-len." },
    "output-len": { ...tokens, default: "128", about: "Tokens of an answer. Also --osl, --random-output-len." },
    "random-range-ratio": {
      ...number(0, 1, "max"),
      default: "0",
      about: "Made-up lengths are drawn evenly from (1 - r) to (1 + r) times the length.",
    },
    "random-prefix-len": {
      ...integer(0, 1e7),
      default: "0",
      about: "Tokens that all prompts begin with. Also --prefix-repetition-prefix-len.",
    },
    "prefix-repetition-suffix-len": { ...tokens, default: "256", about: "Tokens behind the prefix." },
    "prefix-repetition-num-prefixes": { ...integer(1, 1e6), default: "10", about: "Different prefixes." },
    ...traceOptions,
    turns: { ...wholeRange, default: "2-6", about: "Turns of a conversation (multi_turn)." },
    "think-time": {
      ...thinkTime,
      default: "exponential:5s",
      about: "Pause before a conversation's next turn (multi_turn).",
    },
  }),
  ...inGroup("Requests", {
    "ignore-eos": {
      ...onlyOn,
      default: "false",
      about: "Asks for answers of full length; random datasets do so anyway.",
    },
    "min-tokens": { ...integer(0), default: "none", about: "Field min_tokens." },
    temperature: { ...number(0, 100), default: "none", about: "Field temperature." },
    "extra-body": {
      ...jsonObject('a JSON object, as in {"top_p": 0.9}'),
      default: "{}",
      about: "More fields of the body. Also --extra-inputs.",
    },
    "legacy-max-tokens": {
      ...onlyOn,
      default: "false",
      about: "Chats say max_tokens in place of max_completion_tokens. Also --use-legacy-max-tokens.",
    },
    "no-stream": { ...onlyOn, default: "false", about: "Answers come in one piece." },
  }),
  ...inGroup("Robustness", {
    "cancel-rate": {
      ...number(0, 100),
      default: "0",
      about: "Percentage of requests that are cut. Also --request-cancellation-rate.",
    },
    "cancel-delay": {
      ...seconds(0, DAY_S),
      default: "0",
      about: "When: so long after they were to be sent. Also --request-cancellation-delay.",
    },
    "slow-reader-rate": {
      ...number(0, 100),
      default: "0",
      about: "Percentage of requests whose answers are read twice a second only.",
    },
    connections: {
      ...choice("pooled", "never"),
      default: "pooled",
      about: "Connections are used again, or each carries one request.",
    },
    timeout: { ...seconds(0.001, 30 * DAY_S), default: "600", about: "What a request may take in all." },
    retries: {
      ...integer(0, 100),
      default: "0",
      about:
        "A request that got no answer (no connection, 408, 409, 429, from 500 on) is sent again so often, when Retry-After says or after 0.5 s, doubled.",
    },
    seed: {
      ...integer(0, 2 ** 32 - 1),
      default: "0",
      about: "Of prompts and arrivals: the same seed gives the same ones.",
    },
  }),
  ...inGroup("Measures", {
    goodput: {
      ...sloList,
      default: "none",
      about: "Limits that a good request keeps, as in ttft:500 tpot:50; itl is its own 99th percentile.",
    },
    "percentile-metrics": {
      ...namesFrom(FLAT_METRICS),
      default: FLAT_METRICS.join(","),
      about: "Metrics of the table and of the flat keys; openai-embeddings has e2el alone.",
    },
    "metric-percentiles": {
      ...percentileList,
      default: "50,90,95,99",
      about: "Which percentiles; our own distributions have 99.9, too, from 1,000 samples on.",
    },
    "metrics-url": { ...httpUrl, default: "/metrics of the server", about: "The server's Prometheus page." },
    "metrics-interval": { ...seconds(0.1, 3600), default: "1", about: "Time between two scrapes." },
    "no-server-metrics": { ...onlyOn, default: "false", about: "The server's metrics are not read." },
    "check-truth": {
      ...onlyOn,
      default: "false",
      about: "Compares each request with what Understudy says it really experienced: docs/truth-log.md.",
    },
    "check-truth-log": {
      ...freeText("FILE", "a file"),
      default: "none",
      about: "The same, with the server's truth log in place of asking the server.",
    },
  }),
  ...inGroup("Output", {
    json: { ...file, default: "none", about: "The result." },
    html: { ...file, default: "none", about: "A report with plots, one file that needs no network." },
    "save-result": { ...onlyOn, default: "false", about: "Writes the result under vLLM's name for it." },
    "append-result": { ...onlyOn, default: "false", about: "The same, as one more line of the file." },
    "save-detailed": {
      ...onlyOn,
      default: "false",
      about: "With a row per request: arrays in the result, and JSON Lines beside it (.requests.jsonl).",
    },
    "result-dir": {
      ...freeText("DIR", "a folder"),
      default: "the current one",
      about: "Where; made if it is not there.",
    },
    "result-filename": { ...freeText("NAME", "a file's name"), default: "label-rate-model-time", about: "Its name." },
    label: { ...freeText("TEXT", "a text"), default: "the backend", about: "Key label, and beginning of the name." },
    metadata: { ...pairs, default: "none", about: "More keys of the result." },
  }),
} as const satisfies Record<string, OptionRow>;

export type LoadValues = ValuesOf<typeof loadOptions>;

/** Other tools' names. */
export const loadAliases: Readonly<Record<string, keyof typeof loadOptions>> = {
  "base-url": "url",
  "served-model-name": "model",
  "arrival-smoothness": "burstiness",
  "vllm-burstiness": "burstiness",
  "max-concurrency": "concurrency",
  "request-count": "num-prompts",
  "num-requests": "num-prompts",
  "benchmark-duration": "duration",
  "benchmark-grace-period": "grace-period",
  "num-warmups": "warmup-request-count",
  isl: "input-len",
  osl: "output-len",
  "random-input-len": "input-len",
  "random-output-len": "output-len",
  "prefix-repetition-prefix-len": "random-prefix-len",
  "block-size": "hash-block-tokens",
  "extra-inputs": "extra-body",
  "use-legacy-max-tokens": "legacy-max-tokens",
  "request-cancellation-rate": "cancel-rate",
  "request-cancellation-delay": "cancel-delay",
};

export const loadShortFlags: Readonly<Record<string, string>> = { "-u": "--url", "-m": "--model", "-h": "--help" };

export function loadHelp(): string {
  return [
    "understudy load [options]",
    "",
    "Sends requests to a server with OpenAI's or Anthropic's API, or to Triton, and measures the answers. Prompts are made",
    "up unless a dataset says otherwise. docs/load.md says how everything is measured.",
    "",
    "Exit code: 0 something was measured, 1 nothing was, 2 it could not begin (flags, files, no server, no such model).",
    "",
    optionsHelp(loadOptions),
  ].join("\n");
}
