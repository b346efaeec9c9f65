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
  row,
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
    url: row("Address of the server. Also -u, --base-url.", { ...httpUrl, default: "http://127.0.0.1:8000" }),
    backend: row(
      "API of the requests: chat, completions, responses, Anthropic's messages, embeddings; for Triton generate_stream, infer, or gRPC. Also --endpoint-type chat|completions|responses|messages|embeddings.",
      { ...choice(...LOAD_DIALECTS), default: "openai-chat" },
    ),
    endpoint: row("Path of the requests, after the URL.", {
      ...freeText("PATH", "a path that begins with /"),
      default: "the backend's",
    }),
    model: row("Model of the requests. Also -m, --served-model-name.", {
      ...freeText("NAME", "a model's name"),
      default: "the first model of the server's list",
    }),
    "api-key": row("API key, sent as Authorization: Bearer; with anthropic-messages also as x-api-key.", {
      ...freeText("KEY", "a key"),
      default: "OPENAI_API_KEY from the environment; for anthropic-messages ANTHROPIC_API_KEY",
    }),
    header: row("Additional headers; may be given several times.", headers),
    insecure: row("Do not check certificates.", onlyOn),
    "ssl-ca-certs": row("Certificates to trust.", { ...freeText("FILE", "a file"), default: "the system's" }),
  }),
  ...inGroup("Arrivals", {
    "request-rate": row("Open loop: average requests per second; inf: all at once.", {
      ...numberOrInf,
      default: "none: a closed loop",
    }),
    "arrival-pattern": row("Distribution of the gaps between requests in an open loop; gamma uses --burstiness.", {
      ...choice("constant", "poisson", "gamma"),
      default: "poisson",
    }),
    burstiness: row(
      "Shape of gamma gaps: 1 is Poisson, below 1 burstier, above 1 more even. Also --arrival-smoothness.",
      { ...numberOrInf, default: "1" },
    ),
    "rescale-arrivals": row(
      "Stretch the gaps so that the last request is sent at exactly count / rate, as vllm bench serve does.",
      onlyOn,
    ),
    concurrency: row(
      "Concurrent requests: the number in a closed loop, a maximum in an open loop. Also --max-concurrency.",
      { ...integer(1, 65_536), default: "1 in a closed loop, none in an open one" },
    ),
    "ramp-up-strategy": row(
      "Increase the rate over the requests of the run, or over its duration if no count is set.",
      choice("linear", "exponential"),
    ),
    "ramp-up-start-rps": row("Requests per second at the start of the ramp.", number(0, 1e6, "min")),
    "ramp-up-end-rps": row("Requests per second at the end of the ramp.", number(0, 1e6, "min")),
    "fixed-schedule": row("Send requests at the times of the dataset.", {
      ...toggle,
      default: "true for datasets with times",
    }),
    "replay-speedup": row("Factor by which the dataset's times pass faster.", {
      ...number(0, 1e6, "min"),
      default: "1",
    }),
    "num-prompts": row("Number of requests to send. Also --request-count, --num-requests.", {
      ...integer(1),
      default: "1000 in an open loop, twice the concurrency and at least 10 in a closed one, all of a schedule",
    }),
    duration: row("Time for which requests are sent. Also --benchmark-duration.", seconds(0.001, 30 * DAY_S)),
    "grace-period": row(
      "Time that running requests get after the duration. Then they are cut and count as unfinished. Also --benchmark-grace-period.",
      { ...seconds(0, DAY_S), default: "30" },
    ),
    "warmup-request-count": row(
      "Number of requests before the measured ones, with different prompts. Also --num-warmups.",
      { ...integer(0, 1e6), default: "0" },
    ),
    "warmup-duration": row("Time of warm-up requests before the measured ones.", {
      ...seconds(0, DAY_S),
      default: "0",
    }),
    sweep: row("Run once per rate (1,2,4,8) or per concurrency (concurrency:1,2,4).", sweep),
    "sweep-until": row(
      "End the sweep with the first run in which less than this share of requests keeps the limits.",
      until,
    ),
  }),
  ...inGroup("Prompts", {
    "dataset-name": row("Source of the prompts: docs/reference/load-datasets.md.", {
      ...choice(...DATASET_NAMES),
      default: "random",
    }),
    "dataset-path": row("File of the dataset.", freeText("FILE", "a file")),
    "skip-bad": row("Count malformed lines and skip them.", onlyOn),
    "input-len": row("Tokens per made-up prompt. Also --isl, --random-input-len.", { ...tokens, default: "1024" }),
    "output-len": row("Tokens per answer. Also --osl, --random-output-len.", { ...tokens, default: "128" }),
    "random-range-ratio": row("Draw made-up lengths uniformly from (1 - X) to (1 + X) times the length.", {
      ...number(0, 1, "max"),
      default: "0",
    }),
    "random-prefix-len": row("Tokens of a prefix that all prompts share. Also --prefix-repetition-prefix-len.", {
      ...integer(0, 1e7),
      default: "0",
    }),
    "prefix-repetition-suffix-len": row("Tokens after the prefix.", { ...tokens, default: "256" }),
    "prefix-repetition-num-prefixes": row("Number of different prefixes.", { ...integer(1, 1e6), default: "10" }),
    ...traceOptions,
    turns: row("Turns per conversation (multi_turn).", { ...wholeRange, default: "2-6" }),
    "think-time": row("Pause before a conversation's next turn (multi_turn).", {
      ...thinkTime,
      default: "exponential:5s",
    }),
  }),
  ...inGroup("Requests", {
    "ignore-eos": row("Request answers of full length. Random datasets always do.", onlyOn),
    "min-tokens": row("Value of the request field min_tokens.", integer(0)),
    temperature: row("Value of the request field temperature.", number(0, 100)),
    "extra-body": row("Additional fields of the request body. Also --extra-inputs.", {
      ...jsonObject('a JSON object, as in {"top_p": 0.9}'),
      default: "{}",
    }),
    "legacy-max-tokens": row(
      "Send max_tokens in place of max_completion_tokens in chats. Also --use-legacy-max-tokens.",
      onlyOn,
    ),
    "no-stream": row("Request answers without streaming.", onlyOn),
  }),
  ...inGroup("Robustness", {
    "cancel-rate": row("Percentage of requests to cancel. Also --request-cancellation-rate.", {
      ...number(0, 100),
      default: "0",
    }),
    "cancel-delay": row(
      "Time after the intended send time at which they are canceled. Also --request-cancellation-delay.",
      { ...seconds(0, DAY_S), default: "0" },
    ),
    "slow-reader-rate": row("Percentage of requests whose answers are read only twice a second.", {
      ...number(0, 100),
      default: "0",
    }),
    connections: row("pooled: reuse connections; never: one connection per request.", {
      ...choice("pooled", "never"),
      default: "pooled",
    }),
    timeout: row("Maximum total time of a request.", { ...seconds(0.001, 30 * DAY_S), default: "600" }),
    retries: row(
      "Maximum retries of a request that failed (no connection, 408, 409, 429, 500 and above). Waits as Retry-After says, else 0.5 s, doubled each time.",
      { ...integer(0, 100), default: "0" },
    ),
    seed: row("Seed of prompts and arrivals. The same seed repeats them.", {
      ...integer(0, 2 ** 32 - 1),
      default: "0",
    }),
  }),
  ...inGroup("Measures", {
    goodput: row(
      "Limits in ms that a good request keeps, as in ttft:500 tpot:50. itl limits the 99th percentile within a request.",
      sloList,
    ),
    "percentile-metrics": row(
      "Metrics of the table and of the flat keys of the result. openai-embeddings has only e2el.",
      { ...namesFrom(FLAT_METRICS), default: FLAT_METRICS.join(",") },
    ),
    "metric-percentiles": row(
      "Percentiles to report. Our own distributions also have 99.9 with 1,000 samples or more.",
      { ...percentileList, default: "50,90,95,99" },
    ),
    "metrics-url": row("URL of the server's Prometheus metrics.", { ...httpUrl, default: "/metrics of the server" }),
    "metrics-interval": row("Time between two scrapes.", { ...seconds(0.1, 3600), default: "1" }),
    "no-server-metrics": row("Do not scrape the server's metrics.", onlyOn),
    "check-truth": row(
      "Compare each measured request with its true times from an Understudy server: docs/reference/truth-log.md.",
      onlyOn,
    ),
    "check-truth-log": row(
      "Same as --check-truth, but reads the true times from the server's truth log.",
      freeText("FILE", "a file"),
    ),
  }),
  ...inGroup("Output", {
    json: row("Write the result as JSON to this file.", file),
    html: row("Write a report with plots to this file. It works offline.", file),
    "save-result": row("Write the result to a file with vLLM's name for it.", onlyOn),
    "append-result": row("Same as --save-result, but append a line to the file.", onlyOn),
    "save-detailed": row(
      "Also write a row per request: as arrays in the result, and as JSON Lines in a second file (.requests.jsonl).",
      onlyOn,
    ),
    "result-dir": row("Folder of --save-result. Created if missing.", {
      ...freeText("DIR", "a folder"),
      default: "the current one",
    }),
    "result-filename": row("File name of --save-result.", {
      ...freeText("NAME", "a file's name"),
      default: "label-rate-model-time",
    }),
    label: row("Value of the key label, and start of the file name.", {
      ...freeText("TEXT", "a text"),
      default: "the backend",
    }),
    metadata: row("Additional keys of the result.", pairs),
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
