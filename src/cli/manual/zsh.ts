/** Writes the completion script for zsh, in the form of its function `_arguments`. */

import { COMMANDS, COMMANDS_ONCE, type CommandEntry, type CompletedFlag, completedFlags, TRITON } from "./commands.ts";

export function zshScript(): string {
  return `#compdef understudy
# Completion of understudy for zsh. Made by: understudy completion zsh
_understudy() {
  local command=$words[2]
  if ((CURRENT == 2)); then
    local -a commands=(
${COMMANDS_ONCE.map(({ name, about }) => `      ${quoted(`${name}:${about}`)}`).join("\n")}
    )
    _describe -t commands command commands
    return
  fi
  shift words
  ((CURRENT--))
  [[ $command == serve && " $words " == *' --role'[=\\ ]'triton '* ]] && command='${TRITON}'
  case $command in
${COMMANDS.map(branchOf).join("\n")}
  esac
}
if [[ $funcstack[1] == _understudy ]]; then _understudy "$@"; else compdef _understudy understudy; fi
`;
}

function branchOf(entry: CommandEntry): string {
  const specs = [...completedFlags(entry).map(specOf), argumentOf(entry)];
  return `    '${entry.name}')\n      _arguments \\\n${specs.map((spec) => `        ${quoted(spec)}`).join(" \\\n")} ;;`;
}

function specOf({ flag, row, takesValue, brief }: CompletedFlag): string {
  const about = brief.replace(/[[\]:\\]/g, "\\$&");
  if (!takesValue) return `${flag}[${about}]`;
  const values = row.choices === undefined ? "_files" : `(${row.choices.join(" ")})`;
  return `*${flag}=[${about}]:${row.metavar.replace(/[:\\]/g, "\\$&")}:${values}`;
}

const argumentOf = ({ words }: CommandEntry): string =>
  words === undefined ? "*:argument:_files" : `1:argument:(${words.join(" ")})`;

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
