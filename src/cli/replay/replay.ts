/** `understudy replay`: parses the options, replays the trace, prints the results as a table, and writes the result files. */

import answersBin from "../../../build/answers.bin" with { type: "file" };
import debugWasm from "../../../build/core.debug.wasm" with { type: "file" };
import wasm from "../../../build/core.wasm" with { type: "file" };
import trtllmDebugWasm from "../../../build/trtllm.debug.wasm" with { type: "file" };
import trtllmWasm from "../../../build/trtllm.wasm" with { type: "file" };
import { version } from "../../../package.json";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { wallUs } from "../../base/clock.ts";
import { printableJson } from "../../base/printable.ts";
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { flatEngineConfig } from "../../engine/config/engine-config.ts";
import { bothObservers } from "../../engine/observer.ts";
import { coreName } from "../../engine/trtllm-setup.ts";
import { CoreTooLarge, CoreTrap } from "../../engine/wasm/core.ts";
import { Ensemble } from "../../metrics/ensemble/ensemble.ts";
import { dialectNames } from "../../metrics/rows/dialect-names.ts";
import { whyNotShown } from "../../metrics/shown-bugs.ts";
import { loadAnswers } from "../../text/answers/answers.ts";
import type { TracedClientOptions } from "../../tools/replay/clients.ts";
import { ReplayPages } from "../../tools/replay/page.ts";
import { Replay } from "../../tools/replay/replay.ts";
import { Moments, reportOf } from "../../tools/replay/report.ts";
import { resultsOf } from "../../tools/replay/results.ts";
import { RequestSample } from "../../tools/replay/sample.ts";
import { SERIES_HEADER, SeriesRows } from "../../tools/replay/series.ts";
import { replayTable } from "../../tools/replay/table.ts";
import { html, prepareHtml } from "../../tools/report/index.ts";
import { createInlineTruthLog, type TruthLog, unwritable } from "../../truth/log.ts";
import { openTrace } from "../../workloads/open.ts";
import { requests } from "../../workloads/requests.ts";
import { type Trace, TraceError } from "../../workloads/trace.ts";
import { parseFlags } from "../options/flags.ts";
import { inRole, type OptionInput, optionInput } from "../options/given.ts";
import { lookup } from "../options/lookup.ts";
import { OutFile, overwritten } from "../out-file.ts";
import { printError, printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { readCrash, repeatCrash } from "../serve/crash.ts";
import { resolveFlags, takeFlag } from "../serve/resolve.ts";
import { shellWord } from "../shell-word.ts";
import { traceOptionsOf } from "../trace-options.ts";
import { REPLAY, type ReplayValues, replayHelp, takeReplayOptions } from "./replay-options.ts";
import { progressOf } from "./replay-progress.ts";
import { SCRAPE_INTERVAL_S, Scrapes } from "./replay-scrapes.ts";
import { BadLines, printRows, selectionOf, untilUsOf } from "./selection.ts";

const CORES = {
  core: { release: wasm, debug: debugWasm },
  trtllm: { release: trtllmWasm, debug: trtllmDebugWasm },
} as const;

const refuse = refuser("replay");
const CORE_TRAPPED = 70;
/** Simulated seconds between two points in the plots of --html, if the user sets no other interval. */
const PAGE_INTERVAL_S = 0.2;

export async function runReplay(argv: readonly string[]): Promise<void> {
  const role = takeFlag(argv, "role", undefined);
  try {
    if (role.value === "triton") await (await import("./replay-triton.ts")).replayTriton(role.rest);
    else await replay(argv, role.value);
  } catch (failure) {
    if (failure instanceof TraceError || failure instanceof CoreTooLarge) refuse(failure.message);
    else if (failure instanceof CoreTrap || failure instanceof WebAssembly.RuntimeError) {
      printError(`understudy replay: the core trapped: ${failure.message}`);
      process.exitCode = CORE_TRAPPED;
    } else throw failure;
  }
}

async function replay(argv: readonly string[], role: string | undefined): Promise<void> {
  const own = takeReplayOptions(argv);
  if ("error" in own) return refuse(own.error);
  const flags = parseFlags(own.rest, inRole(REPLAY, role));
  if ("error" in flags) return refuse(flags.error);
  if (flags.help !== undefined) return printText(replayHelp());
  const [path = null, second] = flags.positional;
  if (second !== undefined) return refuse(`"${second}": unexpected argument; only one trace is replayed, "${path}"`);

  const { values } = own;
  if (values.crash !== undefined) return replayCrash(values.crash, argv.length);
  const trace = openTrace(path, values.format ?? null, traceOptionsOf(values));
  const resolved = resolveFlags({ ...flags, positional: [] }, process.env, readText, defaultsOf(trace));
  if ("error" in resolved) return refuse(resolved.error);
  const { config, notices } = resolved;
  if (trace.adapters > 0 && config.engine.maxLoras === 0)
    return refuse(`--format ${values.format}: adapters need --enable-lora`);
  // A replay always runs in one process, so --workers has no effect.
  const why = whyNotShown({ ...config, workers: 1 }) ?? wouldOverwrite(path, values, config);
  if (why !== undefined) return refuse(why);
  const command = ["understudy replay", ...argv.map(shellWord)].join(" ");
  await runTrace({ trace, name: path ?? values.format!, values, config, notices, command });
}

function wouldOverwrite(
  path: string | null,
  values: ReplayValues,
  { truth: { log: truthLog } }: ServeConfig,
): string | undefined {
  return overwritten(path === null ? [] : [path], {
    "--json": values.json,
    "--html": values.html,
    "--metrics": values.metrics,
    "--series": values.series,
    "--openmetrics": values.openmetrics,
    "--truth-log": truthLog?.file,
  });
}

async function replayCrash(path: string, words: number): Promise<void> {
  if (words > 2) return refuse("--crash FILE: takes no other options, because the file has the configuration");
  const crash = readCrash(path);
  if ("wrong" in crash) return refuse(crash.wrong);
  const [core, answers] = await Promise.all([
    Bun.file(CORES[coreName(crash.engine)].debug).arrayBuffer(),
    Bun.file(answersBin).bytes(),
  ]);
  const { lines, trapped } = repeatCrash(crash, version, new WebAssembly.Module(core), loadAnswers(answers));
  printText(lines.join("\n"));
  if (trapped) process.exitCode = CORE_TRAPPED;
}

interface TraceRun {
  readonly trace: Trace;
  /** Name of the trace, for messages and results. */
  readonly name: string;
  readonly values: ReplayValues;
  readonly config: ServeConfig;
  /** Warnings about the options. Printed only once the replay begins, because a refused start prints one line. */
  readonly notices: readonly string[];
  /** Command line of this run, for the report. */
  readonly command: string;
}

async function runTrace(given: TraceRun): Promise<void> {
  const { trace, name, values, config, notices } = given;
  const files = openFiles(values);
  const startS = values["start-time"] ?? 0;
  const scrapes =
    values.openmetrics === undefined
      ? null
      : new Scrapes(
          values.openmetrics,
          `${config.listen.host}:${config.listen.port}`,
          values.dialects ?? dialectNames,
          startS,
        );
  let pages: ReplayPages | null = null;
  const bad = new BadLines();
  const wanted = selectionOf(values, config.engine.seed, bad);
  const untilUs = untilUsOf(values);
  const progress = progressOf(trace, wanted.limit, untilUs);
  const engines = values.engines ?? config.dataParallelSize;
  const truth = truthOf(config, engines);
  const shown = values.html === undefined ? null : { moments: new Moments(), sample: new RequestSample() };
  if (shown !== null) prepareHtml();
  const module = await WebAssembly.compile(await Bun.file(CORES[coreName(config.engine)].release).arrayBuffer());
  const startUs = wallUs();
  const paged = scrapes !== null || files.metrics !== null;
  const replay = new Replay({
    config: config.engine,
    module,
    engines,
    requests: requests(trace, name, wanted),
    pace: trace.pace,
    hashBlockTokens: trace.blockTokens,
    untilUs,
    clients: clientsOf(values, config.engine.seed),
    collect: () => Bun.gc(true),
    ...(paged && { beforeUpdate: (nowUs: number) => pages?.before(nowUs) }),
    ...(scrapes !== null && {
      scrapes: {
        intervalUs: Math.round(1e6 * (values["scrape-interval"] ?? SCRAPE_INTERVAL_S)),
        onScrape: (atUs) => scrapes.take(pages!, atUs),
      },
    }),
    ...(config.metrics.triton.metrics &&
      paged && {
        meters: (now: () => number) => new Ensemble(config.metrics.triton.quantiles, now, Math.round(startS * 1e6)),
      }),
    ...observed(truth, shown?.sample ?? null),
    ...rowsInto(files.series, shown?.moments ?? null, values["series-interval"]),
    ...(process.stderr.isTTY && { onProgress: progress.show }),
  });
  const dropped = truth === null ? null : () => truth.dropped();
  if (paged) pages = new ReplayPages(replay, { config, startS, dropped });
  for (const notice of notices) warn(notice);
  const durationUs = scrapes === null ? replay.run() : await replay.runScraped();
  replay.stop();
  await truth?.close();
  const tookUs = wallUs() - startUs;
  progress.clear();
  trace.close();
  const results = resultsOf(replay, durationUs, aboutOf(given, bad.count));
  printText(replayTable(results, tookUs));
  printLost(truth);
  bad.tell(name);
  printRows(trace);
  files.json?.end(`${printableJson(results, 2)}\n`);
  files.metrics?.end(await pages!.text("role"));
  files.series?.end("");
  if (files.html !== null && shown !== null) {
    const { moments, sample } = shown;
    const page = reportOf(replay, results, { command: given.command, version, moments, requests: sample.seen });
    files.html.end(html(page, sample.records));
  }
  scrapes?.end();
}

function openFiles({ json, html, metrics, series }: ReplayValues) {
  const open = (path: string | undefined) => (path === undefined ? null : new OutFile(path));
  return { json: open(json), html: open(html), metrics: open(metrics), series: open(series) };
}

function aboutOf({ trace, name, config }: TraceRun, badLines: number) {
  const model = config.models.servedModelNames[0]!;
  const span = trace.times?.span() ?? null;
  return { name, format: trace.format, span, model, config: config.engine, badLines, passedOver: trace.passed.count };
}

function printLost(truth: TruthLog | null): void {
  const lost = truth?.dropped();
  if (lost && lost.run + lost.step + lost.request > 0) {
    printText(`truth log: lost ${lost.request} requests, ${lost.step} steps, ${lost.run} runs`);
  }
}

/** Returns the default of --block-size for a trace with hash ids: one block of the engine per hash id. */
function defaultsOf(trace: Trace): readonly OptionInput[] {
  const size = Math.min(trace.blockTokens, BLOCK_SIZE_MOST);
  return trace.hasIds ? [optionInput(lookup("block-size")!, [`${size}`], trace.format)] : [];
}

function clientsOf(values: ReplayValues, seed: number): TracedClientOptions {
  const timeout = values["client-timeout"];
  const patienceUs = timeout ? ([timeout[0] * 1e6, timeout[1] * 1e6] as const) : null;
  return { stopShare: values["stop-share"] ?? 0, patienceUs, seed };
}

/**
 * Opens the truth log. The thread of the replay writes the log itself, so that no record is dropped. Null if no log is written.
 */
function truthOf({ truth: { log: truthLog }, engine }: ServeConfig, engines: number): TruthLog | null {
  if (truthLog === null) return null;
  const why = unwritable(truthLog.file);
  if (why !== undefined) throw new TraceError(`--truth-log: cannot write "${truthLog.file}" (${why})`);
  return createInlineTruthLog(truthLog, { engine: flatEngineConfig(engine), engines, epochUs: null }, warn);
}

function warn(line: string): void {
  printError(`understudy replay: ${line}`);
}

/** Returns the observer of every step for the truth log, the report, or both. */
function observed(truth: TruthLog | null, sample: RequestSample | null) {
  if (truth === null && sample === null) return {};
  const observer = (engine: number) => {
    if (truth === null) return sample!.observer();
    return sample === null ? truth.observer(engine) : bothObservers(truth.observer(engine), sample.observer());
  };
  return { observer };
}

/**
 * Returns the option by which a replay writes a row per interval of simulated time to --series, the report, or both. Empty if
 * neither is wanted.
 */
function rowsInto(file: OutFile | null, moments: Moments | null, seconds: number | undefined) {
  if (file === null && moments === null) return {};
  file?.write(`${SERIES_HEADER}\n`);
  const series = new SeriesRows();
  const onRow = (...row: Parameters<SeriesRows["row"]>) => {
    file?.write(`${series.row(...row)}\n`);
    moments?.row(...row);
  };
  return { series: { intervalUs: Math.round((seconds ?? (file === null ? PAGE_INTERVAL_S : 1)) * 1e6), onRow } };
}

/** Maximum value of --block-size. */
const BLOCK_SIZE_MOST = 65_536;

function readText(path: string): string {
  return textAtMost(path, NAMED_FILE_BYTES_MOST);
}
