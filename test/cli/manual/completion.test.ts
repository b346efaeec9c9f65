/** Tests the completion scripts: each shell that is installed completes with its own means, and each script has all options. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bashScript } from "../../../src/cli/manual/bash.ts";
import { COMMANDS, COMMANDS_ONCE, completedFlags } from "../../../src/cli/manual/commands.ts";
import { fishScript } from "../../../src/cli/manual/fish.ts";
import { runCompletion, runMan } from "../../../src/cli/manual/manual.ts";
import { zshScript } from "../../../src/cli/manual/zsh.ts";

const root = new URL("../../../", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-completion-"));
afterAll(() => rmSync(folder, { recursive: true }));

function run(words: readonly string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync([...words], {
    cwd: folder,
    env: { ...process.env, HOME: folder },
  });
  if (exitCode !== 0) throw new Error(`${words[0]}: ${stderr}${stdout}`);
  return stdout.toString();
}

/** Returns the proposed words without the flag that precedes a value and without a final equals sign. */
const wordsOf = (text: string): string[] =>
  text
    .split("\n")
    .map((word) =>
      word
        .trim()
        .replace(/^--[\w-]+=(?=.)/, "")
        .replace(/=$/, ""),
    )
    .filter((word) => word !== "");

/** Calls the script's function as readline does: a word break is before and after each equals sign. */
const IN_BASH = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _understudy; printf '%s\\n' "\${COMPREPLY[@]}"`;
function inBash(lines: readonly string[]): string[][] {
  return lines.map((line) => {
    const words = line.split(/ +|(?<==)|(?==)/);
    return wordsOf(run(["bash", "--norc", "-c", IN_BASH, "bash", join(folder, "bash"), ...words]));
  });
}

/** Types each line and a tab into an interactive zsh, and collects the words that the completion adds. */
const IN_ZSH = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source $1/setup.zsh"
for line in "\${@[2,-1]}"; do
  print -- LINE >> "$1/added"
  zpty -w -n shell $'\\x15'"$line"$'\\t'
  zpty -r shell text $'*\\1END*'
done`;
const ZSH_SETUP = `
PROMPT=
bindkey -e
autoload -Uz compinit
compinit -u -D
source ${folder}/zsh
bindkey '^I' complete-word
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
  local -a added
  builtin compadd -A added "$@"
  print -rl -- $added >> ${folder}/added
  builtin compadd "$@"
}
comppostfuncs=(ended)
ended() { comppostfuncs=(ended); print -n $'\\1END' }
`;
function inZsh(lines: readonly string[]): string[][] {
  run(["zsh", "-fc", IN_ZSH, "zsh", folder, ...lines]);
  return readFileSync(join(folder, "added"), "utf8").split("LINE\n").slice(1).map(wordsOf);
}

function inFish(lines: readonly string[]): string[][] {
  const words = lines.map((line) => `complete -C ${JSON.stringify(line)}; echo LINE`);
  const said = run(["fish", "--no-config", "-c", [`source ${folder}/fish`, ...words].join("; ")]);
  return said.replace(/\t.*/g, "").split("LINE\n").slice(0, -1).map(wordsOf);
}

const SHELLS = [
  ["bash", bashScript, inBash],
  ["zsh", zshScript, inZsh],
  ["fish", fishScript, inFish],
] as const;

for (const [name, script] of SHELLS) writeFileSync(join(folder, name), script());
writeFileSync(join(folder, "setup.zsh"), ZSH_SETUP);

/** Beginnings of lines, each with words that must be proposed and words that must not be. */
const LINES: readonly (readonly [line: string, wanted: readonly string[], unwanted: readonly string[]])[] = [
  ["understudy he", ["health", "help"], ["serve"]],
  ["understudy serve --max-num-s", ["--max-num-seqs", "--max-num-scheduled-tokens"], ["--host"]],
  ["understudy serve --no-enable-pref", ["--no-enable-prefix-caching"], []],
  ["understudy serve --role ", ["vllm", "triton", "trtllm-serve"], ["fcfs"]],
  ["understudy serve --port 1 --scheduling-policy=", ["fcfs", "priority"], ["vllm"]],
  ["understudy serve --bug ", ["open-leak"], []],
  ["understudy serve --role triton --http-p", ["--http-port"], ["--host"]],
  ["understudy serve --role triton --triton-version ", ["2.73", "2.51"], []],
  ["understudy completion ", ["bash", "zsh", "fish"], []],
  ["understudy load --dataset-n", ["--dataset-name"], []],
];

for (const [name, _, complete] of SHELLS) {
  test.skipIf(Bun.which(name) === null)(
    `${name} completes commands, options and values`,
    () => {
      const proposed = complete(LINES.map(([line]) => line));
      for (const [at, [line, wanted, unwanted]] of LINES.entries()) {
        const words = proposed[at]!;
        expect({ line, words }).toEqual({ line, words: expect.arrayContaining([...wanted]) });
        expect({ line, found: unwanted.filter((word) => words.includes(word)) }).toEqual({ line, found: [] });
      }
    },
    30_000,
  );
}

test("bash completes the second value of a list, and proposes nothing where no words are known", () => {
  const [second, ...others] = inBash([
    "understudy serve --bug open-leak op",
    "understudy serve --config ",
    "understudy stress -- --fa",
    "understudy nonsense --",
  ]);
  expect(second).toEqual(["open-leak"]);
  expect(others).toEqual([[], [], []]);
});

test.each(SHELLS)("the script for %s has every option of every command", (name, script) => {
  const text = script();
  for (const entry of COMMANDS) {
    for (const { flag } of completedFlags(entry))
      expect(text).toContain(name === "fish" ? ` -l ${flag.slice(2)} ` : name === "zsh" ? `${flag}` : flag);
  }
});

test("the list of commands is that of understudy help", () => {
  const usage = /const USAGE = `([^`]*)`/.exec(readFileSync(`${root}src/main.ts`, "utf8"))![1]!;
  const listed = new Set([...usage.matchAll(/^ {2}understudy ([\w-]+)/gm)].map(([, word]) => word!));
  expect(COMMANDS_ONCE.map(({ name }) => name).sort()).toEqual([...listed].sort());
});

test("wrong words are refused in one line with code 2", () => {
  const before = process.exitCode;
  const { error } = console;
  const lines: string[] = [];
  console.error = (line: string) => void lines.push(line);
  try {
    for (const words of [[], ["tcsh"], ["bash", "zsh"]]) runCompletion(words);
    runMan(["serve"]);
    expect(process.exitCode).toBe(2);
  } finally {
    console.error = error;
    process.exitCode = before ?? 0;
  }
  expect(lines).toEqual([
    "understudy completion: accepts one shell: bash, zsh, fish (understudy completion --help)",
    'understudy completion: "tcsh" has no script; accepts one shell: bash, zsh, fish (understudy completion --help)',
    "understudy completion: accepts one shell: bash, zsh, fish (understudy completion --help)",
    'understudy man: "serve": accepts no arguments (understudy man --help)',
  ]);
});
