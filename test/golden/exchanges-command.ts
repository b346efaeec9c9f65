/** The command line and the verdict of `golden api` and `golden triton`, which play recorded exchanges against live servers. */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { endShared } from "../at-end.ts";
import { namesOf } from "./only.ts";

/** Ends the program with its usage. */
export function usage(command: string, why: string): never {
  console.error(`golden ${command}: ${why}\nusage: npx bun run golden ${command} DIR [--only LIST] [--mutate SEED]`);
  process.exit(2);
}

function parsed(command: string) {
  try {
    return parseArgs({ options: { only: { type: "string" }, mutate: { type: "string" } }, allowPositionals: true });
  } catch (error) {
    return usage(command, (error as Error).message);
  }
}

/** Reads the command line. `only`: names; `seed`: that of `--mutate`. Both are null if they are not given. */
export function commandLine(command: string) {
  const { values, positionals } = parsed(command);
  const { only, mutate } = values;
  const [dir, ...rest] = positionals;
  if (dir === undefined || rest.length > 0) usage(command, "one folder is needed");
  if (!existsSync(dir)) usage(command, `${dir}: no such folder`);
  if (mutate !== undefined && !/^\d+$/.test(mutate)) usage(command, `--mutate ${mutate}: must be a whole number`);
  return { dir, only: only === undefined ? null : namesOf(only), seed: mutate === undefined ? null : Number(mutate) };
}

export interface CaseResult {
  readonly name: string;
  /** Description of the first difference. Null if there is none. */
  readonly wrong: string | null;
}

/**
 * Counts results. Prints those that are wrong, or those that should be wrong but are not, if recordings were changed. `end`
 * prints the sums and sets the exit code. `missing`: names without a recording.
 */
export function verdict(missing: readonly string[], areChanged: boolean) {
  for (const name of missing) console.log(`absent ${name}`);
  let passed = 0;
  let failed = missing.length;
  return {
    add({ name, wrong }: CaseResult): void {
      if (wrong === null) passed++;
      else failed++;
      if (wrong === null && areChanged) console.log(`passed although changed: ${name}`);
      if (wrong !== null && !areChanged) console.log(`failed ${name}\n  ${wrong}`);
    },
    async end(): Promise<void> {
      await endShared();
      console.log(`${passed} passed, ${failed} failed`);
      process.exitCode = Number((areChanged ? passed + missing.length : failed) > 0);
    },
  };
}
