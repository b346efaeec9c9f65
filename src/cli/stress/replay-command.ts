/** Builds the command that repeats one case of a stress run, for users to copy into a shell. */
import { ownCommand } from "../checkout.ts";
import { shellQuoted, shellWord } from "../shell-word.ts";
import type { StressValues } from "./stress-options.ts";

/** Options that decide how a client is run and judged. All other options choose cases or write files. */
const KEPT = ["client", "protocol", "wait", "retries", "timeout", "hang"] as const;
const SECONDS: readonly string[] = ["wait", "timeout", "hang"];

/** Returns the command that repeats the case of a plan, with the options of this run and with the client's command after `--`. */
export function replayCommand(values: StressValues, command: readonly string[], plan: string): string {
  const options = KEPT.flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [`--${name}`, SECONDS.includes(name) ? `${value}s` : `${value}`];
  });
  const words = ["stress", ...options, "--replay", plan, ...(command.length > 0 ? ["--", ...command] : [])];
  return [ownCommand(), ...words.map((word) => (word === plan ? shellQuoted(word) : shellWord(word)))].join(" ");
}
