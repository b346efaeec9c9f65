/** What does `understudy serve --help` say, and what the table in the documentation? Both come from the options table. */
import { environmentName } from "./environment.ts";
import { ignoredOptions } from "./ignored-flags.ts";
import type { OptionRow } from "./option.ts";
import { serveOptions } from "./serve-options.ts";
import { TRITON_IGNORED } from "./triton-ignored.ts";
import { tritonServerOptions } from "./triton-server-options.ts";

const rows: readonly (readonly [string, OptionRow])[] = Object.entries<OptionRow>(serveOptions);
const WIDTH = 100;

/** `word`: only options whose name has it, as in `vllm serve --help=WORD`; "" and "all" give everything. */
export function serveHelp(word = ""): string {
  const wanted = word.toLowerCase().replaceAll("_", "-");
  const shown =
    wanted === "all" ? rows : rows.filter(([name, row]) => name.includes(wanted) || row.group.toLowerCase() === wanted);
  if (shown.length === 0) {
    const other = Object.keys(ignoredOptions).filter((name) => name.includes(wanted));
    return other.length > 0
      ? `Accepted and ignored, since they mean nothing here: ${other.map((name) => `--${name}`).join(", ")}`
      : `No option has "${word}" in its name; understudy serve --help lists all.`;
  }
  const parts = groupsOf(shown).map(([group, members]) => `${group}\n${members.map(helpOf).join("\n")}`);
  return [...(wanted === "" ? [intro()] : []), ...parts, ...(wanted === "" ? [outro()] : [])].join("\n\n");
}

/** `word`: as in `serveHelp`. */
export function tritonHelp(word = ""): string {
  const all = Object.entries<OptionRow>(tritonServerOptions);
  const shown = all.filter(([name, row]) => name.includes(word) || row.group.toLowerCase() === word.toLowerCase());
  if (shown.length === 0)
    return `No option has "${word}" in its name; understudy serve --role triton --help lists all.`;
  const parts = groupsOf(shown).map(([group, members]) => `${group}\n${members.map(helpOfTriton).join("\n")}`);
  const intro = [
    "understudy serve --role triton [options]",
    "",
    "Serves models as Triton Inference Server does: docs/triton.md.",
  ].join("\n");
  const outro = `Accepted and ignored, since they mean nothing here: ${TRITON_IGNORED.map((name) => `--${name}`).join(", ")}`;
  return [...(word === "" ? [intro] : []), ...parts, ...(word === "" ? [wrapped(outro, "")] : [])].join("\n\n");
}

/** A command's options as Markdown tables, one per group. Of `serve` `UNDERSTUDY_…` and YAML keys follow from the names. */
export function optionsMarkdown(table: Readonly<Record<string, OptionRow>> = serveOptions): string {
  return groupsOf(Object.entries<OptionRow>(table))
    .map(([group, members]) => {
      const lines = members.map(([name, row]) => {
        const flag = `\`${flagOf(name, row)}\`${row.ours ? " (ours)" : ""}`;
        return `| ${[flag, row.default, row.about].map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
      });
      return [`**${group}**`, "", "| Option | Default | What it does |", "|---|---|---|", ...lines].join("\n");
    })
    .join("\n\n");
}

/** The library has it too, for Node 20, which lacks `Map.groupBy`. */
function groupsOf(shown: readonly (readonly [string, OptionRow])[]) {
  const groups = new Set(shown.map(([, row]) => row.group));
  return [...groups].map((group) => [group, shown.filter(([, row]) => row.group === group)] as const);
}

function flagOf(name: string, row: OptionRow): string {
  if (row.arity === "toggle") return `--[no-]${name}`;
  return [`--${name}`, row.metavar, ...(row.arity === "list" ? ["…"] : [])].filter(Boolean).join(" ");
}

function helpOfTriton([name, row]: readonly [string, OptionRow]): string {
  const about = `${row.about} Default: ${row.default}.`;
  return `  --${name}=${row.metavar}\n${wrapped(about, "      ")}`;
}

function helpOf([name, row]: readonly [string, OptionRow]): string {
  const about = `${row.about} Default: ${row.default}.${row.ours ? " Not in vLLM." : ""}`;
  return `  ${flagOf(name, row)}\n${wrapped(about, "      ")}`;
}

function wrapped(text: string, indent: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1)!;
    if (line !== "" && indent.length + line.length + 1 + word.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.map((line) => indent + line).join("\n");
}

function intro(): string {
  return [
    "understudy serve [MODEL] [options]",
    "",
    "Serves the OpenAI API as vLLM 0.33 does, without a GPU: real scheduling, measured step times, made-up text.",
    "Listens on 127.0.0.1 unless --host says otherwise.",
  ].join("\n");
}

function outro(): string {
  const ignored = Object.keys(ignoredOptions).length;
  return [
    `Each option is also read from the environment (--max-num-seqs is ${environmentName("max-num-seqs")}) and from`,
    "the file of --config (key max-num-seqs). Flags beat environment beat file beat default.",
    `${ignored} more options of vllm serve are accepted and ignored; --help=WORD searches the names.`,
  ].join("\n");
}
