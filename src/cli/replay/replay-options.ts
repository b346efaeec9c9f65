/** The options that only `understudy replay` has. The command parses them before the options of the server. */

import { TRACE_FORMATS } from "../../workloads/open.ts";
import type { Command } from "../options/given.ts";
import { freeText, inGroup, integer, number, type OptionRow, onlyOn, row } from "../options/option.ts";
import { optionsHelp, takeOptions, type ValuesOf } from "../options/take-options.ts";
import { traceOptions } from "../trace-options.ts";
import { dialectList, interval, SCRAPE_INTERVAL_S, secondsRange } from "./replay-scrapes.ts";

const SECONDS_MOST = 1e9;

export const replayOptions = {
  ...inGroup("Trace", {
    format: row(`Format of the trace: ${TRACE_FORMATS}.`, {
      ...freeText("FORMAT", TRACE_FORMATS),
      default: "detected from the file",
    }),
    ...traceOptions,
    limit: row("Maximum number of requests to replay.", integer(1)),
    "rate-scale": row("Factor by which requests arrive faster.", { ...number(0, 1e6, "min"), default: "1" }),
    until: row(
      "End at this simulated second. Requests that run then count as unfinished.",
      number(0, SECONDS_MOST, "min"),
    ),
    "skip-bad": row("Count malformed lines and skip them.", onlyOn),
    engines: row("Number of engines. Requests are balanced between them as in the server.", {
      ...integer(1, 256),
      default: "data-parallel-size",
    }),
    crash: row(
      "Run the commands of a crash file in the debug core, in place of a trace. Exit code 70 if it traps again.",
      freeText("FILE", "a file that was written when the core trapped"),
    ),
    "stop-share": row("Share of answers that stop at their traced length. For the others that length is max_tokens.", {
      ...number(0, 1),
      default: "0",
    }),
    "client-timeout": row(
      "Simulated seconds after which a client disconnects from an unfinished answer. A range is drawn from per request.",
      secondsRange,
    ),
  }),
  ...inGroup("Output", {
    json: row("Write the results as JSON to this file.", freeText("FILE", "a path to write")),
    html: row(
      "Write a report with plots to this file. It works offline. Observes every step, which is slower.",
      freeText("FILE", "a path to write"),
    ),
    metrics: row(
      "Write the metrics at the end, as /metrics would show them, to this file.",
      freeText("FILE", "a path to write"),
    ),
    series: row("Write load and KV pool over simulated time as CSV to this file.", freeText("FILE", "a path to write")),
    "series-interval": row("Simulated seconds per row of the series.", {
      ...number(0.001, SECONDS_MOST),
      default: "1",
    }),
    openmetrics: row(
      "Write the samples that Prometheus would have stored as OpenMetrics with timestamps (docs/how-to/prometheus.md).",
      freeText("FILE", "a path to write"),
    ),
    "scrape-interval": row("Simulated time between two scrapes for --openmetrics.", {
      ...interval,
      default: `${SCRAPE_INTERVAL_S}s`,
    }),
    dialects: row("Metrics dialects to scrape for --openmetrics. Each is a job with its name.", {
      ...dialectList,
      default: "all",
    }),
    "start-time": row("Start of the simulation in seconds since 1970, for --openmetrics and --metrics.", {
      ...number(0, 1e10),
      default: "0",
    }),
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
