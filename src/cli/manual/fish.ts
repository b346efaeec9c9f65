/** Writes the completion script for fish. */

import { COMMANDS, COMMANDS_ONCE, type CommandEntry, type CompletedFlag, completedFlags, TRITON } from "./commands.ts";

export function fishScript(): string {
  const names = COMMANDS_ONCE.map(
    ({ name, about }) => `complete -c understudy -n '__understudy_is ""' -f -a ${name} -d ${quoted(about)}`,
  );
  return `# Completion of understudy for fish. Made by: understudy completion fish
function __understudy_is --argument-names wanted
    set -l words (commandline -opc)[2..-1]
    set -l command $words[1]
    if test "$command" = serve; and string match -qr -- '--role[= ]triton( |$)' "$words"
        set command '${TRITON}'
    end
    test "$command" = "$wanted"
end
${[...names, ...COMMANDS.flatMap(linesOf)].join("\n")}
`;
}

function linesOf(entry: CommandEntry): string[] {
  const at = `complete -c understudy -n '__understudy_is "${entry.name}"'`;
  const flags = completedFlags(entry).map((flag) => `${at} ${lineOf(flag)}`);
  return entry.words === undefined ? flags : [...flags, `${at} -f -a ${quoted(entry.words.join(" "))}`];
}

function lineOf({ flag, row, takesValue, brief }: CompletedFlag): string {
  const values = row.choices === undefined ? "-r -F" : `-x -a ${quoted(row.choices.join(" "))}`;
  return `-l ${flag.slice(2)}${takesValue ? ` ${values}` : ""} -d ${quoted(brief)}`;
}

const quoted = (text: string) => `'${text.replace(/['\\]/g, "\\$&")}'`;
