/** Builds the help of `understudy serve` and the option tables of the docs, both from the tables of options. */
import { environmentName } from "./environment.ts";
import { ignoredOptions } from "./ignored-flags.ts";
import type { OptionRow } from "./option.ts";
import { serveOptions } from "./serve-options.ts";
import { TRITON_IGNORED } from "./triton-ignored.ts";
import { tritonServerOptions } from "./triton-server-options.ts";

const rows: readonly (readonly [string, OptionRow])[] = Object.entries<OptionRow>(serveOptions);
const WIDTH = 100;

/**
 * Returns the help. Without `word`, a short overview; for "all", every option. For another word, the options whose name
 * contains the word, or whose group is the word.
 */
export function serveHelp(word = ""): string {
  if (word === "") return firstScreen(SERVE_INTRO, SERVE_COMMANDS, rows, "understudy serve");
  const wanted = word.toLowerCase().replaceAll("_", "-");
  const all = wanted === "all";
  const shown = all ? rows : found(rows, wanted);
  if (shown.length === 0) {
    const other = Object.keys(ignoredOptions).filter((name) => name.includes(wanted));
    return other.length > 0
      ? `Accepted without effect: ${other.map((name) => `--${name}`).join(", ")}`
      : `No option has "${word}" in its name; understudy serve --help=all lists all.`;
  }
  return [...(all ? [SERVE_INTRO] : []), ...partsOf(shown, helpOf), ...(all ? [outro()] : [])].join("\n\n");
}

/** Returns the help of `serve --role triton`. `word`: as in `serveHelp`. */
export function tritonHelp(word = ""): string {
  const options = Object.entries<OptionRow>(tritonServerOptions);
  const command = "understudy serve --role triton";
  if (word === "") return firstScreen(TRITON_INTRO, TRITON_COMMANDS, options, command);
  const all = word === "all";
  const shown = all ? options : found(options, word.toLowerCase());
  if (shown.length === 0) return `No option has "${word}" in its name; ${command} --help=all lists all.`;
  const ignored = `Accepted without effect: ${TRITON_IGNORED.map((name) => `--${name}`).join(", ")}`;
  const parts = partsOf(shown, helpOfTriton);
  return [...(all ? [TRITON_INTRO] : []), ...parts, ...(all ? [wrapped(ignored, "")] : [])].join("\n\n");
}

const SERVE_INTRO = [
  "usage: understudy serve [MODEL] [options]",
  "",
  "Serves the OpenAI API like vLLM 0.33, without a GPU: real scheduling, measured step times, made-up text.",
  "Listens on 127.0.0.1 unless --host names another address.",
].join("\n");
const TRITON_INTRO = [
  "usage: understudy serve --role triton [options]",
  "",
  "Serves models like Triton Inference Server: docs/servers/triton.md.",
].join("\n");

type Commands = readonly (readonly [command: string, effect: string])[];
const SERVE_COMMANDS: Commands = [
  ["understudy serve", "a model of 8B on one H100, at http://127.0.0.1:8000/v1"],
  ["understudy serve meta-llama/Llama-3.1-70B-Instruct", "this model, with the step times measured for it"],
  ["understudy serve --fixtures DIR", "your own answers: docs/how-to/fixtures.md"],
  ["understudy serve --role trtllm-serve", "TensorRT-LLM's server"],
  ["understudy serve --role triton", "Triton Inference Server, with its own --help"],
];
const TRITON_COMMANDS: Commands = [
  ["understudy serve --role triton", "shipped models; HTTP 8000, gRPC 8001, metrics 8002"],
  ["understudy serve --role triton --model-repository=DIR", "your models"],
  ["understudy serve --role triton --model-control-mode=explicit", "load models on request"],
  ["understudy serve --role triton --openai", "Triton's OpenAI front end on port 9000"],
  ["understudy serve --role triton --triton-version=2.51", "answer like version 2.51"],
];

/** Returns the overview: usage, commands to try, and the names of the option groups. */
function firstScreen(
  intro: string,
  commands: Commands,
  options: readonly (readonly [string, OptionRow])[],
  command: string,
): string {
  const groups = groupsOf(options).map(
    ([group, members]) => [`--help=${wordOf(group)}`, `${group}: ${members.length} options`] as const,
  );
  return [
    intro,
    `Commands to start with\n${columns(commands)}`,
    `Groups of options\n${columns(groups)}`,
    `${command} --help=all lists every option, --help=WORD those with the word in their name.`,
  ].join("\n\n");
}

function columns(lines: Commands): string {
  const width = Math.max(...lines.map(([left]) => left.length));
  return lines.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

/** Returns the name of a group as one word, such as `kv-cache`. */
const wordOf = (group: string): string =>
  group
    .replace(/ \(.*\)$/, "")
    .replaceAll("'", "")
    .replaceAll(" ", "-")
    .toLowerCase();

const found = (options: readonly (readonly [string, OptionRow])[], word: string) =>
  options.filter(([name, { group }]) => name.includes(word) || wordOf(group) === word || group.toLowerCase() === word);

const partsOf = (
  shown: readonly (readonly [string, OptionRow])[],
  lineOf: (option: readonly [string, OptionRow]) => string,
): string[] => groupsOf(shown).map(([group, members]) => `${group}\n${members.map(lineOf).join("\n")}`);

/** Returns a command's options as Markdown tables, one per group. */
export function optionsMarkdown(table: Readonly<Record<string, OptionRow>> = serveOptions): string {
  return groupsOf(Object.entries<OptionRow>(table))
    .map(([group, members]) => {
      const lines = members.map(([name, row]) => {
        const flag = `\`${flagOf(name, row)}\`${row.ours ? " (ours)" : ""}`;
        return `| ${[flag, row.default, row.about].map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
      });
      return [`**${group}**`, "", "| Option | Default | Effect |", "|---|---|---|", ...lines].join("\n");
    })
    .join("\n\n");
}

/**
 * Groups options by the heading of their group. Does not use `Map.groupBy`, because this code is also part of the library,
 * which runs on Node 20.
 */
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

function outro(): string {
  const ignored = Object.keys(ignoredOptions).length;
  return [
    `Each option is also read from the environment (--max-num-seqs is ${environmentName("max-num-seqs")}) and from`,
    "the file of --config (key max-num-seqs). A flag wins over the environment, and the environment over the file.",
    `${ignored} more options of vllm serve are accepted without effect; --help=WORD searches their names.`,
  ].join("\n");
}
