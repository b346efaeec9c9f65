/** The options of `understudy load`. Options that vllm bench serve or aiperf also has keep their names. */

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
    url: { ...httpUrl, default: "http://127.0.0.1:8000", about: "Address of the server. Also -u, --base-url." },
    backend: {
      ...choice(...LOAD_DIALECTS),
      default: "openai-chat",
      about:
        "API of the requests: chat, completions, responses, Anthropic's messages, embeddings; for Triton generate_stream, infer, or gRPC. Also --endpoint-type chat|completions|responses|messages|embeddings.",
    },
    endpoint: {
      ...freeText("PATH", "a path that begins with /"),
      default: "the backend's",
      about: "Path of the requests, after the URL.",
    },
    model: {
      ...freeText("NAME", "a model's name"),
      default: "the first model of the server's list",
      about: "Model of the requests. Also -m, --served-model-name.",
    },
    "api-key": {
      ...freeText("KEY", "a key"),
      default: "OPENAI_API_KEY from the environment; for anthropic-messages ANTHROPIC_API_KEY",
      about: "API key, sent as Authorization: Bearer; with anthropic-messages also as x-api-key.",
    },
    header: { ...headers, about: "Additional headers; may be given several times." },
    insecure: { ...onlyOn, about: "Do not check certificates." },
    "ssl-ca-certs": { ...freeText("FILE", "a file"), default: "the system's", about: "Certificates to trust." },
  }),
  ...inGroup("Arrivals", {
    "request-rate": {
      ...numberOrInf,
      default: "none: a closed loop",
      about: "Open loop: average requests per second; inf: all at once.",
    },
    "arrival-pattern": {
      ...choice("constant", "poisson", "gamma"),
      default: "poisson",
      about: "Distribution of the gaps between requests in an open loop; gamma uses --burstiness.",
    },
    burstiness: {
      ...numberOrInf,
      default: "1",
      about: "Shape of gamma gaps: 1 is Poisson, below 1 burstier, above 1 more even. Also --arrival-smoothness.",
    },
    "rescale-arrivals": {
      ...onlyOn,
      about: "Stretch the gaps so that the last request is sent at exactly count / rate, as vllm bench serve does.",
    },
    concurrency: {
      ...integer(1, 65_536),
      default: "1 in a closed loop, none in an open one",
      about: "Concurrent requests: the number in a closed loop, a maximum in an open loop. Also --max-concurrency.",
    },
    "ramp-up-strategy": {
      ...choice("linear", "exponential"),
      about: "Increase the rate over the requests of the run, or over its duration if no count is set.",
    },
    "ramp-up-start-rps": {
      ...number(0, 1e6, "min"),
      about: "Requests per second at the start of the ramp.",
    },
    "ramp-up-end-rps": {
      ...number(0, 1e6, "min"),
      about: "Requests per second at the end of the ramp.",
    },
    "fixed-schedule": {
      ...toggle,
      default: "true for datasets with times",
      about: "Send requests at the times of the dataset.",
    },
    "replay-speedup": {
      ...number(0, 1e6, "min"),
      default: "1",
      about: "Factor by which the dataset's times pass faster.",
    },
    "num-prompts": {
      ...integer(1),
      default: "1000 in an open loop, twice the concurrency and at least 10 in a closed one, all of a schedule",
      about: "Number of requests to send. Also --request-count, --num-requests.",
    },
    duration: {
      ...seconds(0.001, 30 * DAY_S),
      about: "Time for which requests are sent. Also --benchmark-duration.",
    },
    "grace-period": {
      ...seconds(0, DAY_S),
      default: "30",
      about:
        "Time that running requests get after the duration. Then they are cut and count as unfinished. Also --benchmark-grace-period.",
    },
    "warmup-request-count": {
      ...integer(0, 1e6),
      default: "0",
      about: "Number of requests before the measured ones, with different prompts. Also --num-warmups.",
    },
    "warmup-duration": {
      ...seconds(0, DAY_S),
      default: "0",
      about: "Time of warm-up requests before the measured ones.",
    },
    sweep: {
      ...sweep,
      about: "Run once per rate (1,2,4,8) or per concurrency (concurrency:1,2,4).",
    },
    "sweep-until": {
      ...until,
      about: "End the sweep with the first run in which less than this share of requests keeps the limits.",
    },
  }),
  ...inGroup("Prompts", {
    "dataset-name": {
      ...choice(...DATASET_NAMES),
      default: "random",
      about: "Source of the prompts: docs/reference/load-datasets.md.",
    },
    "dataset-path": { ...freeText("FILE", "a file"), about: "File of the dataset." },
    "skip-bad": { ...onlyOn, about: "Count malformed lines and skip them." },
    "input-len": { ...tokens, default: "1024", about: "Tokens per made-up prompt. Also --isl, --random-input-len." },
    "output-len": { ...tokens, default: "128", about: "Tokens per answer. Also --osl, --random-output-len." },
    "random-range-ratio": {
      ...number(0, 1, "max"),
      default: "0",
      about: "Draw made-up lengths uniformly from (1 - X) to (1 + X) times the length.",
    },
    "random-prefix-len": {
      ...integer(0, 1e7),
      default: "0",
      about: "Tokens of a prefix that all prompts share. Also --prefix-repetition-prefix-len.",
    },
    "prefix-repetition-suffix-len": { ...tokens, default: "256", about: "Tokens after the prefix." },
    "prefix-repetition-num-prefixes": { ...integer(1, 1e6), default: "10", about: "Number of different prefixes." },
    ...traceOptions,
    turns: { ...wholeRange, default: "2-6", about: "Turns per conversation (multi_turn)." },
    "think-time": {
      ...thinkTime,
      default: "exponential:5s",
      about: "Pause before a conversation's next turn (multi_turn).",
    },
  }),
  ...inGroup("Requests", {
    "ignore-eos": {
      ...onlyOn,
      about: "Request answers of full length. Random datasets always do.",
    },
    "min-tokens": { ...integer(0), about: "Value of the request field min_tokens." },
    temperature: { ...number(0, 100), about: "Value of the request field temperature." },
    "extra-body": {
      ...jsonObject('a JSON object, as in {"top_p": 0.9}'),
      default: "{}",
      about: "Additional fields of the request body. Also --extra-inputs.",
    },
    "legacy-max-tokens": {
      ...onlyOn,
      about: "Send max_tokens in place of max_completion_tokens in chats. Also --use-legacy-max-tokens.",
    },
    "no-stream": { ...onlyOn, about: "Request answers without streaming." },
  }),
  ...inGroup("Robustness", {
    "cancel-rate": {
      ...number(0, 100),
      default: "0",
      about: "Percentage of requests to cancel. Also --request-cancellation-rate.",
    },
    "cancel-delay": {
      ...seconds(0, DAY_S),
      default: "0",
      about: "Time after the intended send time at which they are canceled. Also --request-cancellation-delay.",
    },
    "slow-reader-rate": {
      ...number(0, 100),
      default: "0",
      about: "Percentage of requests whose answers are read only twice a second.",
    },
    connections: {
      ...choice("pooled", "never"),
      default: "pooled",
      about: "pooled: reuse connections; never: one connection per request.",
    },
    timeout: { ...seconds(0.001, 30 * DAY_S), default: "600", about: "Maximum total time of a request." },
    retries: {
      ...integer(0, 100),
      default: "0",
      about:
        "Maximum retries of a request that failed (no connection, 408, 409, 429, 500 and above). Waits as Retry-After says, else 0.5 s, doubled each time.",
    },
    seed: {
      ...integer(0, 2 ** 32 - 1),
      default: "0",
      about: "Seed of prompts and arrivals. The same seed repeats them.",
    },
  }),
  ...inGroup("Measures", {
    goodput: {
      ...sloList,
      about:
        "Limits in ms that a good request keeps, as in ttft:500 tpot:50. itl limits the 99th percentile within a request.",
    },
    "percentile-metrics": {
      ...namesFrom(FLAT_METRICS),
      default: FLAT_METRICS.join(","),
      about: "Metrics of the table and of the flat keys of the result. openai-embeddings has only e2el.",
    },
    "metric-percentiles": {
      ...percentileList,
      default: "50,90,95,99",
      about: "Percentiles to report. Our own distributions also have 99.9 with 1,000 samples or more.",
    },
    "metrics-url": { ...httpUrl, default: "/metrics of the server", about: "URL of the server's Prometheus metrics." },
    "metrics-interval": { ...seconds(0.1, 3600), default: "1", about: "Time between two scrapes." },
    "no-server-metrics": { ...onlyOn, about: "Do not scrape the server's metrics." },
    "check-truth": {
      ...onlyOn,
      about:
        "Compare each measured request with its true times from an Understudy server: docs/reference/truth-log.md.",
    },
    "check-truth-log": {
      ...freeText("FILE", "a file"),
      about: "Same as --check-truth, but reads the true times from the server's truth log.",
    },
  }),
  ...inGroup("Output", {
    json: { ...file, about: "Write the result as JSON to this file." },
    html: { ...file, about: "Write a report with plots to this file. It works offline." },
    "save-result": { ...onlyOn, about: "Write the result to a file with vLLM's name for it." },
    "append-result": { ...onlyOn, about: "Same as --save-result, but append a line to the file." },
    "save-detailed": {
      ...onlyOn,
      about:
        "Also write a row per request: as arrays in the result, and as JSON Lines in a second file (.requests.jsonl).",
    },
    "result-dir": {
      ...freeText("DIR", "a folder"),
      default: "the current one",
      about: "Folder of --save-result. Created if missing.",
    },
    "result-filename": {
      ...freeText("NAME", "a file's name"),
      default: "label-rate-model-time",
      about: "File name of --save-result.",
    },
    label: {
      ...freeText("TEXT", "a text"),
      default: "the backend",
      about: "Value of the key label, and start of the file name.",
    },
    metadata: { ...pairs, about: "Additional keys of the result." },
  }),
} as const satisfies Record<string, OptionRow>;

export type LoadValues = ValuesOf<typeof loadOptions>;

/** Our option by the name that another tool gives it. */
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
    "up unless --dataset-name chooses others. docs/reference/load.md defines all measures.",
    "",
    "Exit code: 0 something was measured, 1 nothing was, 2 the run could not start (flags, files, server, model).",
    "",
    optionsHelp(loadOptions),
  ].join("\n");
}
