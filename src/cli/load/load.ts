/**
 * `understudy load`: parses the options, runs one load or a sweep, prints the results as a table, and writes the result files.
 */

import { accessSync, constants } from "node:fs";
import { version } from "../../../package.json";
import { epochSeconds, WallClock } from "../../base/clock.ts";
import { textAtMost } from "../../base/read-at-most.ts";
import { createAlarm } from "../../base/time/alarm.ts";
import { Load, type LoadOutcome, withModel } from "../../tools/load/load.ts";
import { NoMeasurementError } from "../../tools/load/server.ts";
import type { Settings } from "../../tools/load/settings.ts";
import { Sweep, sweepLines } from "../../tools/load/sweep.ts";
import { ourTable, vllmTable } from "../../tools/load/table.ts";
import { type TruthResult, truthLines } from "../../tools/load/truth.ts";
import { TraceError } from "../../workloads/trace.ts";
import { onInterrupt } from "../interrupt.ts";
import { printError, printText } from "../print.ts";
import { refuser, USAGE_ERROR } from "../refuse.ts";
import { shellWord } from "../shell-word.ts";
import { TerminalLine } from "../terminal-line.ts";
import { takeLoadArguments } from "./load-args.ts";
import { LoadFiles } from "./load-files.ts";
import { type LoadValues, loadHelp } from "./load-options.ts";
import { settingsOf } from "./load-settings.ts";

const NOTHING_MEASURED = 1;
/** Maximum size in bytes of a file that an option names. A larger file counts as unreadable. */
const TEXT_MOST = 1 << 24;
const refuse = refuser("load");

export async function runLoad(argv: readonly string[]): Promise<void> {
  const taken = takeLoadArguments(argv);
  if ("error" in taken) return refuse(taken.error);
  if (taken.help) return printText(loadHelp());
  const { values } = taken;
  const command = ["understudy load", ...withoutSecrets(argv).map(shellWord)].join(" ");
  const settings = settingsOf(values, { env: process.env, command, version, read: textOf });
  if ("error" in settings) return refuse(settings.error);
  const clock = new WallClock(createAlarm);
  try {
    await load(values, settings, clock);
  } catch (failure) {
    if (!(failure instanceof TraceError)) throw failure;
    printError(`understudy load: ${failure.message}`);
    process.exitCode = failure instanceof NoMeasurementError ? NOTHING_MEASURED : USAGE_ERROR;
  } finally {
    clock.close();
  }
}

async function load(values: LoadValues, options: Settings, clock: WallClock): Promise<void> {
  const { model } = options;
  const settings = model === null ? await withModel(options, clock) : { ...options, model };
  const files = new LoadFiles(values, settings, settings.model, epochSeconds());
  mustBeReadable(settings.dataset.path);
  // Ask the server after opening the files, because errors about files can be reported without a server.
  if (model !== null) await withModel(options, clock);
  const terminal = new TerminalLine();
  const around = {
    clock,
    live: terminal.isTerminal ? (line: string) => terminal.show(line.slice(0, width())) : null,
  };
  const cleared = () => terminal.clear();
  if (values.sweep === undefined) {
    const run = new Load(settings, around);
    const stopped = onInterrupt(() => run.stop());
    const loaded = await run.run().finally(cleared);
    stopped();
    finish(settings, loaded, files);
    return;
  }
  const plan = { ...values.sweep, until: values["sweep-until"] ?? null };
  const sweep = new Sweep(settings, plan, around);
  const stopped = onInterrupt(() => sweep.stop());
  const swept = await sweep.run((result) => files.append(result)).finally(cleared);
  stopped();
  finish(swept.settings, swept.loaded, files);
  printText(`\n${sweepLines(swept, plan).join("\n")}`);
}

const width = (): number => (process.stderr.columns || 80) - 1;

/** Throws a `NoMeasurementError` if the run measured nothing. Throws only after all results are printed and written. */
function finish(settings: Settings, loaded: LoadOutcome, files: LoadFiles): void {
  show(settings, loaded);
  files.write(loaded.result, loaded.records);
  if (files.report !== undefined) printText(`report: ${files.report}`);
  if (loaded.nothing !== null) throw new NoMeasurementError(loaded.nothing);
}

function show(settings: Settings, { result, rows }: LoadOutcome): void {
  printText(vllmTable(settings, result).join("\n"));
  printText(`\n${ourTable(settings, result, settings.metrics).join("\n")}`);
  const { truth, warnings = [] } = result.understudy;
  if (truth) printText(`\n${truthLines(truth as TruthResult).join("\n")}`);
  if (rows.length > 0) printText(`\n${rows.join("\n")}`);
  for (const warning of warnings) printText(`warning: ${warning}`);
}

function mustBeReadable(path: string | undefined): void {
  try {
    if (path !== undefined) accessSync(path, constants.R_OK);
  } catch (failure) {
    throw new TraceError(`--dataset-path ${path}: cannot be read (${(failure as { code?: string }).code})`);
  }
}

function textOf(path: string): string {
  try {
    return textAtMost(path, TEXT_MOST);
  } catch {
    return "";
  }
}

/** Replaces API keys and header values in the command line by a placeholder, because users pass reports on. */
function withoutSecrets(argv: readonly string[]): string[] {
  let secret = "";
  return argv.map((word) => {
    const [, flag = "", value] = /^(--[\w-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (flag !== "") secret = value === undefined ? flag : "";
    if (flag === "--api-key" && value !== undefined) return "--api-key=…";
    if (flag === "--header" && value !== undefined) return `--header=${value.replace(/([=:]).*/s, "$1…")}`;
    if (flag !== "") return word;
    if (secret === "--api-key") return "…";
    return secret === "--header" ? word.replace(/([=:]).*/s, "$1…") : word;
  });
}
