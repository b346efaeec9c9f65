/** The options that only `understudy replay` has. The command parses them before the options of the server. */

import { TRACE_FORMATS } from "../../workloads/open.ts";
import type { Command } from "../options/given.ts";
import { freeText, inGroup, integer, number, type OptionRow, onlyOn } from "../options/option.ts";
import { optionsHelp, takeOptions, type ValuesOf } from "../options/take-options.ts";
import { traceOptions } from "../trace-options.ts";
import { dialectList, interval, SCRAPE_INTERVAL_S, secondsRange } from "./replay-scrapes.ts";

const SECONDS_MOST = 1e9;

export const replayOptions = {
  ...inGroup("Trace", {
    format: {
      ...freeText("FORMAT", TRACE_FORMATS),
      default: "detected from the file",
      about: `Format of the trace: ${TRACE_FORMATS}.`,
    },
    ...traceOptions,
    limit: { ...integer(1), about: "Maximum number of requests to replay." },
    "rate-scale": { ...number(0, 1e6, "min"), default: "1", about: "Factor by which requests arrive faster." },
    until: {
      ...number(0, SECONDS_MOST, "min"),
      about: "End at this simulated second. Requests that run then count as unfinished.",
    },
    "skip-bad": { ...onlyOn, about: "Count malformed lines and skip them." },
    engines: {
      ...integer(1, 256),
      default: "data-parallel-size",
      about: "Number of engines. Requests are balanced between them as in the server.",
    },
    crash: {
      ...freeText("FILE", "a file that was written when the core trapped"),
      about: "Run the commands of a crash file in the debug core, in place of a trace. Exit code 70 if it traps again.",
    },
    "stop-share": {
      ...number(0, 1),
      default: "0",
      about: "Share of answers that stop at their traced length. For the others that length is max_tokens.",
    },
    "client-timeout": {
      ...secondsRange,
      about:
        "Simulated seconds after which a client disconnects from an unfinished answer. A range is drawn from per request.",
    },
  }),
  ...inGroup("Output", {
    json: { ...freeText("FILE", "a path to write"), about: "Write the results as JSON to this file." },
    html: {
      ...freeText("FILE", "a path to write"),
      about: "Write a report with plots to this file. It works offline. Observes every step, which is slower.",
    },
    metrics: {
      ...freeText("FILE", "a path to write"),
      about: "Write the metrics at the end, as /metrics would show them, to this file.",
    },
    series: {
      ...freeText("FILE", "a path to write"),
      about: "Write load and KV pool over simulated time as CSV to this file.",
    },
    "series-interval": {
      ...number(0.001, SECONDS_MOST),
      default: "1",
      about: "Simulated seconds per row of the series.",
    },
    openmetrics: {
      ...freeText("FILE", "a path to write"),
      about:
        "Write the samples that Prometheus would have stored as OpenMetrics with timestamps (docs/how-to/prometheus.md).",
    },
    "scrape-interval": {
      ...interval,
      default: `${SCRAPE_INTERVAL_S}s`,
      about: "Simulated time between two scrapes for --openmetrics.",
    },
    dialects: {
      ...dialectList,
      default: "all",
      about: "Metrics dialects to scrape for --openmetrics. Each is a job with its name.",
    },
    "start-time": {
      ...number(0, 1e10),
      default: "0",
      about: "Start of the simulation in seconds since 1970, for --openmetrics and --metrics.",
    },
  }),
} as const satisfies Record<string, OptionRow>;

export const REPLAY: Command = { name: "replay", own: Object.keys(replayOptions) };

export type ReplayValues = ValuesOf<typeof replayOptions>;

/** Parses the options of replay. In the result, `rest` are the arguments for the parser of the server's options. */
export const takeReplayOptions = (argv: readonly string[]) => takeOptions(replayOptions, argv);

export function replayHelp(): string {
  return [
    "understudy replay TRACE [options]",
    "understudy replay synthetic:isl=1000,osl=200,concurrency=256 [options]",
    "",
    "Runs a trace through the server's engine in simulated time, as fast as the machine can.",
    "Same trace, seed and options: same results. --role triton --model NAME runs it through Triton's schedulers instead.",
    "",
    optionsHelp(replayOptions),
    "",
    "The model, scheduler, KV cache and timing options are those of understudy serve (understudy serve --help),",
    "from flags, UNDERSTUDY_… variables and --config alike. --block-size is by default that of the trace's hash ids.",
  ].join("\n");
}
