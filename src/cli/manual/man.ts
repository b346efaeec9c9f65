/** Writes the man page understudy(1) from the tables of options, in the macros of man(7). */

import { version } from "../../../package.json";
import type { OptionRow } from "../options/option.ts";
import { COMMANDS, type CommandEntry } from "./commands.ts";

export function manPage(): string {
  return `${[
    `.TH UNDERSTUDY 1 "" "understudy ${version}" "User Commands"`,
    ".SH NAME",
    "understudy \\- stands in for an LLM inference server",
    ".SH SYNOPSIS",
    ...COMMANDS.flatMap(({ name, takes }) => [
      `.B ${escaped(`understudy ${name}`)}`,
      ...(takes === "" ? [] : [escaped(takes)]),
      ".br",
    ]),
    ".SH DESCRIPTION",
    escaped(
      "Schedules like the engine, streams on time and shows its metrics, without a GPU. Servers listen on 127.0.0.1.",
    ),
    ...COMMANDS.flatMap(section),
    ".SH ENVIRONMENT",
    ".TP",
    ".B UNDERSTUDY_NAME",
    escaped("Each option of serve, except those of --role triton: UNDERSTUDY_MAX_NUM_SEQS sets --max-num-seqs."),
    ".SH FILES",
    escaped(
      "The file of --config is YAML. Its keys are options without leading dashes. A flag wins over the environment, and",
    ),
    escaped("the environment over the file."),
    ".SH EXIT STATUS",
    escaped("0: success. 2: wrong usage. docs/reference/exit-codes.md lists the codes of each command."),
  ].join("\n")}\n`;
}

function section({ name, about, options }: CommandEntry): string[] {
  const groups = Map.groupBy(Object.entries(options), ([, { group }]) => group);
  const rows = [...groups].flatMap(([group, members]) => [
    ...(group === "" || groups.size === 1 ? [] : [`.SS ${quoted(group)}`]),
    ...members.flatMap(entryOf),
  ]);
  return [`.SH ${quoted(name.toUpperCase())}`, escaped(about), ...rows];
}

function entryOf([name, row]: readonly [string, OptionRow]): string[] {
  const { arity, metavar } = row;
  const flag = arity === "toggle" ? `--[no-]${name}` : `--${name}`;
  const value = arity === "list" && !metavar.endsWith("…") ? `${metavar}…` : metavar;
  const parts = [`\\fB${escaped(flag)}\\fR`, ...(value === "" ? [] : [`\\fI${escaped(value)}\\fR`])];
  return [".TP", parts.join(" "), escaped(`${row.about} Default: ${row.default}.`)];
}

/** Returns the text so that roff prints it as it is. A line cannot start a request. */
const escaped = (text: string): string =>
  text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("…", "...").replace(/^[.']/, "\\&$&");

const quoted = (text: string): string => `"${escaped(text).replaceAll('"', '""')}"`;
