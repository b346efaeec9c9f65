/** What can `understudy replay` be told, beside all that the server's engine can? One table, read before the server's options. */

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
      default: "what the file looks like",
      about: `What the trace is: ${TRACE_FORMATS}.`,
    },
    ...traceOptions,
    limit: { ...integer(1), default: "none", about: "At most so many requests." },
    "rate-scale": { ...number(0, 1e6, "min"), default: "1", about: "Requests arrive so many times as fast." },
    until: {
      ...number(0, SECONDS_MOST, "min"),
      default: "none",
      about: "Ends at this simulated second; what runs then is unfinished.",
    },
    "skip-bad": { ...onlyOn, default: "false", about: "Counts bad lines and goes on." },
    engines: {
      ...integer(1, 256),
      default: "data-parallel-size",
      about: "Engines of this configuration; requests are balanced as the server does.",
    },
    crash: {
      ...freeText("FILE", "a file that was written when the core trapped"),
      default: "none",
      about: "Instead of a trace: gives the commands in the file to the debug core; 70 when it breaks again.",
    },
    "stop-share": {
      ...number(0, 1),
      default: "0",
      about: "Share of answers that end by themselves at their traced length; the others have it as their limit.",
    },
    "client-timeout": {
      ...secondsRange,
      default: "none",
      about: "Simulated seconds after which a client leaves, if its answer has not ended; drawn where it is a range.",
    },
  }),
  ...inGroup("Output", {
    json: { ...freeText("FILE", "a path to write"), default: "none", about: "The results as JSON." },
    html: {
      ...freeText("FILE", "a path to write"),
      default: "none",
      about: "A report with plots, one file that needs no network. Looks at every step, which takes longer.",
    },
    metrics: {
      ...freeText("FILE", "a path to write"),
      default: "none",
      about: "The text that /metrics would show at the end.",
    },
    series: {
      ...freeText("FILE", "a path to write"),
      default: "none",
      about: "Load and pool over simulated time, as CSV.",
    },
    "series-interval": {
      ...number(0.001, SECONDS_MOST),
      default: "1",
      about: "Simulated seconds per row of the series.",
    },
    openmetrics: {
      ...freeText("FILE", "a path to write"),
      default: "none",
      about: "What Prometheus would have stored, as OpenMetrics with timestamps (docs/prometheus.md).",
    },
    "scrape-interval": {
      ...interval,
      default: `${SCRAPE_INTERVAL_S}s`,
      about: "Simulated time between two scrapes for --openmetrics.",
    },
    dialects: {
      ...dialectList,
      default: "all",
      about: "Dialects that are scraped for --openmetrics, each as a job of its name.",
    },
    "start-time": {
      ...number(0, 1e10),
      default: "0",
      about: "Seconds since 1970 at which the simulation begins, for --openmetrics and --metrics.",
    },
  }),
} as const satisfies Record<string, OptionRow>;

export const REPLAY: Command = { name: "replay", own: Object.keys(replayOptions) };

export type ReplayValues = ValuesOf<typeof replayOptions>;

/** Takes replay's own options out of `argv`; `rest` is for the server's parser. */
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
