/**
 * Writes the completion script for bash. It works with bash 3.2, the version of macOS, so it has no associative arrays. If it
 * proposes nothing, bash completes names of files.
 */

import { COMMANDS, COMMANDS_ONCE, type CommandEntry, completedFlags, TRITON } from "./commands.ts";

export function bashScript(): string {
  const values = COMMANDS.flatMap(valueCases);
  return `# Completion of understudy for bash. Made by: understudy completion bash
_understudy() {
  local cur=\${COMP_WORDS[COMP_CWORD]} flag= command= word at between=
  COMPREPLY=()
  # Readline splits --flag=value at the equals sign.
  [ "$cur" = = ] && cur=
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=\${COMP_WORDS[at]}
    case $word in
      --) COMPREPLY=(); return ;;
      --*) flag=$word between= ;;
      =) ;;
      *) [ "$flag" = --role ] && [ "$word" = triton ] && [ "$command" = serve ] && command='${TRITON}'
        if [ -z "$command" ]; then command=$word; else between=$between.; fi ;;
    esac
  done
  if [ -z "$command" ]; then
    COMPREPLY=($(compgen -W '${COMMANDS_ONCE.map(({ name }) => name).join(" ")}' -- "$cur"))
    return
  fi
  if [ "\${cur#-}" = "$cur" ]; then
    case "$command $flag$between" in
${values.join("\n")}
    esac
    return
  fi
  case $command in
${COMMANDS.map((entry) => `    '${entry.name}') word='${flagsOf(entry).join(" ")}' ;;`).join("\n")}
    *) return ;;
  esac
  COMPREPLY=($(compgen -W "$word" -- "$cur"))
}
complete -o default -F _understudy understudy
`;
}

const flagsOf = (entry: CommandEntry) => completedFlags(entry).map(({ flag }) => flag);

/** Returns the branches of the values that the flags and the first argument of a command can have. */
function valueCases(entry: CommandEntry): string[] {
  const flags = completedFlags(entry).flatMap(({ flag, row }) => {
    if (row.choices === undefined) return [];
    // The values of a list are several words.
    const pattern = `'${entry.name} ${flag}'`;
    return [branch(row.arity === "list" ? `${pattern}|${pattern}.*` : pattern, row.choices)];
  });
  return entry.words === undefined ? flags : [...flags, branch(`'${entry.name} '`, entry.words)];
}

const branch = (pattern: string, words: readonly string[]) =>
  `      ${pattern}) COMPREPLY=($(compgen -W '${words.join(" ")}' -- "$cur")) ;;`;
