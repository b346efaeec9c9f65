/** What can `understudy timing` be told? */
import { TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { type OptionRow, onlyOn } from "../options/option.ts";
import { optionsHelp } from "../options/take-options.ts";

export const timingOptions = {
  json: { ...onlyOn, group: "Output", default: "false", about: "JSON in place of tables and plots." },
} as const satisfies Record<string, OptionRow>;

export function timingHelp(): string {
  return [
    "understudy timing list [--json]",
    "understudy timing show TIMING [--json]",
    "understudy timing fit FILE|FOLDER... [options]",
    "",
    "list: the presets, each of them one model measured on one kind of GPU.",
    "show: times to first token by prompt length, times between tokens by batch, as table and plot. TIMING is what",
    `--timing takes: ${TIMING_FORMS}.`,
    "fit: reads the results of vllm bench serve (--save-result, best with --save-detailed), of aiperf",
    "(profile_export_aiperf.json, best profile_export.jsonl), of understudy load, or a folder of understudy proxy",
    "--record, fits a linear timing to them, and says its error. Standard output gets what --timing takes and nothing",
    "else; the report goes to standard error.",
    "",
    optionsHelp(timingOptions),
    "",
    "fit replays each run with what it found. The model, scheduler and KV cache of that replay are those of",
    "understudy serve (understudy serve --help), from the same flags, as --max-num-batched-tokens or --timing PRESET",
    "for a preset's pool. docs/timing.md says more.",
  ].join("\n");
}
