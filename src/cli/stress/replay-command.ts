/** The command that runs one case of a stress run again, for copying into a shell. */
import type { StressValues } from "./stress-options.ts";

/** Options that decide how a client is run and judged; the others choose cases or write files. */
const KEPT = ["client", "protocol", "wait", "retries", "timeout", "hang"] as const;
const SECONDS: readonly string[] = ["wait", "timeout", "hang"];

/** Returns the whole command for a plan: the options that the client was run with, and its words after `--`. */
export function replayCommand(values: StressValues, command: readonly string[], plan: string): string {
  const options = KEPT.flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [`--${name}`, SECONDS.includes(name) ? `${value}s` : `${value}`];
  });
  const words = [
    "understudy",
    "stress",
    ...options,
    "--replay",
    plan,
    ...(command.length > 0 ? ["--", ...command] : []),
  ];
  return words.map((word) => (word === plan ? quoted(word) : shellWord(word))).join(" ");
}

const shellWord = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : quoted(word));
const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;
