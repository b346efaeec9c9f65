/** `understudy completion SHELL` prints the completion script of a shell, and `understudy man` the man page. */

import { printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { bashScript } from "./bash.ts";
import { SHELLS } from "./commands.ts";
import { fishScript } from "./fish.ts";
import { manPage } from "./man.ts";
import { zshScript } from "./zsh.ts";

const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], () => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

const COMPLETION_HELP = `understudy completion ${SHELLS.join("|")}

Prints a script that completes commands, options and their values. To use it in every new shell:

  bash  understudy completion bash > ~/.local/share/bash-completion/completions/understudy
  zsh   understudy completion zsh > DIR/_understudy, where DIR is in $fpath
  fish  understudy completion fish > ~/.config/fish/completions/understudy.fish`;

const MAN_HELP = `understudy man

Prints the manual in the format of man: understudy man > understudy.1; man ./understudy.1`;

const isHelp = (word: string | undefined): boolean => word === "--help" || word === "-h";

export function runCompletion([shell, ...others]: readonly string[]): void {
  const refuse = refuser("completion");
  const known = SHELLS.find((name) => name === shell);
  if (isHelp(shell)) printText(COMPLETION_HELP);
  else if (known !== undefined && others.length === 0) printText(SCRIPTS[known]().trimEnd());
  else {
    const wrong = shell === undefined || known !== undefined ? "" : `"${shell}" has no script; `;
    refuse(`${wrong}accepts one shell: ${SHELLS.join(", ")} (understudy completion --help)`);
  }
}

export function runMan([word]: readonly string[]): void {
  if (isHelp(word)) printText(MAN_HELP);
  else if (word === undefined) printText(manPage().trimEnd());
  else refuser("man")(`"${word}": accepts no arguments (understudy man --help)`);
}
