/** `understudy timing`: prints presets and timings, or fits a timing to benchmark results. */

import type { EngineConfig } from "../../engine/config/engine-config.ts";
import { parseTiming, TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { findPreset, presetNames } from "../../engine/timing/presets.ts";
import type { UsageError } from "../options/given.ts";
import { serveConfig } from "../options/serve-config.ts";
import { takeOptions } from "../options/take-options.ts";
import { printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { timingHelp, timingOptions } from "./timing-options.ts";
import { listText, showText } from "./timing-show.ts";

const refuse = refuser("timing");

export async function runTiming(argv: readonly string[]): Promise<void> {
  const [command, ...words] = argv;
  if (words.concat(command ?? []).some((word) => word === "--help" || word === "-h")) return printText(timingHelp());
  if (command === "fit") return (await import("./timing-fit.ts")).runTimingFit(words);
  const taken = takeOptions(timingOptions, words);
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  const flag = rest.find((word) => word.startsWith("-"));
  if (flag !== undefined) return refuse(`${flag}: unknown flag (understudy timing --help lists the options)`);
  if (command === "list" && rest.length === 0) return printText(listText(presets(), values.json ?? false));
  if (command === "list") return refuse(`"${rest[0]}": unexpected; timing list takes no name`);
  if (command === "show" && rest.length === 1) {
    const shown = show(rest[0]!, values.json ?? false);
    return typeof shown === "string" ? printText(shown) : refuse(shown.error);
  }
  if (command === "show") return refuse("timing show takes one timing, as a preset's name (understudy timing list)");
  const what = command === undefined ? "needs a command;" : `"${command}" is not a command of timing;`;
  refuse(`${what} there are list, show and fit (understudy timing --help)`);
}

function show(text: string, json: boolean): string | UsageError {
  const timing = parseTiming(text);
  if ("error" in timing)
    return { error: `"${text}": ${timing.error}; must be ${TIMING_FORMS} (${presetNames.join(", ")})` };
  if (timing.kind === "none") return { error: '"none": has no times to show' };
  const engine = engineOf(text);
  if ("error" in engine) return engine;
  return showText(text, timing.kind === "table" ? findPreset(timing.name) : undefined, engine, json);
}

function presets(): ReadonlyMap<string, EngineConfig> {
  return new Map(presetNames.map((name) => [name, engineOf(name) as EngineConfig]));
}

/** Returns the configuration of an engine with this timing. */
function engineOf(timing: string): EngineConfig | UsageError {
  const made = serveConfig({ timing }, new Map());
  return "error" in made ? made : made.config.engine;
}
