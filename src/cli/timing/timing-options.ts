/** The options and the help text of `understudy timing`. */
import { TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { type OptionRow, onlyOn, row } from "../options/option.ts";
import { optionsHelp } from "../options/take-options.ts";

export const timingOptions = {
  json: row("Print JSON in place of tables and plots.", { ...onlyOn, group: "Output" }),
} as const satisfies Record<string, OptionRow>;

export function timingHelp(): string {
  return [
    "understudy timing list [--json]",
    "understudy timing show TIMING [--json]",
    "understudy timing fit FILE|FOLDER... [options]",
    "",
    "list: prints the presets. Each is one model measured on one kind of GPU.",
    "show: prints times to first token by prompt length and times between tokens by batch. TIMING is a value that",
    `--timing accepts: ${TIMING_FORMS}.`,
    "fit: reads the results of vllm bench serve (--save-result, best with --save-detailed), of aiperf",
    "(profile_export_aiperf.json, best profile_export.jsonl), of understudy load, or a folder of understudy proxy",
    "--record, fits a linear timing to them, and reports its error. Standard output gets only a value for --timing;",
    "the report goes to standard error.",
    "",
    optionsHelp(timingOptions),
    "",
    "fit replays each run with the fitted timing. The model, scheduler and KV cache of that replay are those of",
    "understudy serve (understudy serve --help), from the same flags, as --max-num-batched-tokens or --timing PRESET",
    "for a preset's pool. Details: docs/how-to/fit-timing.md.",
  ].join("\n");
}
