/**
 * Writes and replays crash files. A crash file describes an engine core that trapped: error message, seed, configuration, last
 * counters and last commands. The server writes it into the working directory. Bun or Node can run its commands again in a new
 * core.
 */
import { writeFileSync } from "node:fs";
import { textAtMost } from "../../base/read-at-most.ts";
import {
  type EngineConfig,
  engineConfigOf,
  type FlatEngineConfig,
  flatEngineConfig,
} from "../../engine/config/engine-config.ts";
import { REQUEST_NUMBERS, SUBMIT_NAMES } from "../../engine/core-request.ts";
import type { EngineSnapshot } from "../../engine/interface/types.ts";
import type { CoreCommand, JournalText } from "../../engine/journal.ts";
import { replayJournal } from "../../engine/repeat.ts";
import type { AnswerTables } from "../../text/answers/answers.ts";

const SCHEMA = 1;
/** Values of fields that a crash file leaves out of a command to keep it short. A command without the field has this value. */
const USUAL = { words: [], handle: -1 };
const EXPECTED = "expected a file that understudy wrote when its core trapped (understudy-crash-….json)";

export interface Crash {
  readonly crash: typeof SCHEMA;
  readonly version: string;
  readonly error: string;
  readonly stack: string | undefined;
  readonly eosId: number;
  readonly engine: EngineConfig;
  /** Names of the numbers that follow the length of the prompt in an `add` command. */
  readonly addFields: readonly string[];
  /** Counters of each engine, in the order of the engine's rank. */
  readonly snapshots: readonly EngineSnapshot[];
  readonly journals: readonly JournalText[];
}

/** Content of a crash file, as JSON. It contains the engine's configuration in a flat form. */
type CrashFile = Omit<Crash, "engine"> & { readonly engine: FlatEngineConfig };

/**
 * Writes a crash file into the working directory and returns its name. The file contains the token ids of prompts, but never an
 * API key.
 */
export function writeCrash(
  version: string,
  error: Error,
  engine: EngineConfig,
  eosId: number,
  snapshots: readonly EngineSnapshot[],
  journals: readonly JournalText[],
): string {
  const file = `understudy-crash-${process.pid}.json`;
  const { message, stack } = error;
  const about = {
    crash: SCHEMA,
    version,
    error: message,
    stack,
    eosId,
    engine: flatEngineConfig(engine),
    addFields: SUBMIT_NAMES,
    snapshots,
  };
  // Write each command on a line of its own, because people also read the file.
  const texts = journals.map(
    ({ commands, ...rest }) =>
      `${JSON.stringify(rest).slice(0, -1)},"commands":[\n${commands.map(lineOf).join(",\n")}\n]}`,
  );
  writeFileSync(file, `${JSON.stringify(about, null, 1).slice(0, -2)},\n "journals": [\n${texts.join(",\n")}\n]}\n`);
  return file;
}

function lineOf({ call, numbers, words, handle }: CoreCommand): string {
  const short = {
    call,
    numbers,
    ...(words?.length === 0 ? {} : { words }),
    ...(handle === USUAL.handle ? {} : { handle }),
  };
  return JSON.stringify(short);
}

/** Maximum size of a crash file, in bytes. */
const CRASH_MOST = 2 ** 28;

/** Reads a crash file. Returns an error message in `wrong` if the file cannot be read or is not a crash file. */
export function readCrash(path: string): Crash | { readonly wrong: string } {
  try {
    const crash = JSON.parse(textAtMost(path, CRASH_MOST)) as CrashFile;
    if (crash.crash === SCHEMA && Array.isArray(crash.journals)) {
      const whole = (command: Partial<CoreCommand>) => ({ ...USUAL, ...command }) as CoreCommand;
      const journals = crash.journals.map((text) => ({ ...text, commands: text.commands.map(whole) }));
      return { ...crash, engine: engineConfigOf(crash.engine), journals };
    }
  } catch (failure) {
    const { code } = failure as { code?: string };
    if (code !== undefined) return { wrong: `cannot read "${path}" (${code})` };
  }
  return { wrong: `${path}: ${EXPECTED}` };
}

/**
 * Runs the commands of each engine in a new core. `module`: the core to use; the debug core finds more errors. Returns a report
 * in lines, and `trapped`: true if a core trapped.
 */
export function repeatCrash(
  { error, version: written, eosId, engine, journals }: Crash,
  version: string,
  module: WebAssembly.Module,
  answers: AnswerTables,
): { readonly lines: string[]; readonly trapped: boolean } {
  const lines = [
    `"${error}", seed ${engine.seed}, version ${written}${written === version ? "" : `; this is ${version}`}`,
  ];
  let trapped = false;
  for (const [rank, journal] of journals.entries()) {
    const { forgotten, remembered, commands } = journal;
    const whole = forgotten === 0 ? "the whole life of its core" : `${forgotten} earlier commands are lost`;
    lines.push(`engine ${rank}: ${commands.length} commands, ${whole}`);
    if (forgotten > 0) lines.push(`  start: ${remembered.length} requests of before the first command, an empty cache`);
    const { commandsRun, skipped, differentHandles, trap } = replayJournal(module, engine, { eosId, answers }, journal);
    if (skipped > 0) lines.push(`  skipped: ${skipped} commands whose request does not exist`);
    if (forgotten === 0 && differentHandles > 0)
      lines.push(`  different history: ${differentHandles} requests have another handle in the core`);
    lines.push(`  ran: ${commandsRun} commands; ${trap === null ? "no trap" : `trapped in ${textOf(trap.command)}`}`);
    if (trap !== null) lines.push(...`${trap.error.stack ?? trap.error}`.split("\n").map((line) => `  ${line}`));
    trapped ||= trap !== null;
  }
  return { lines, trapped };
}

function textOf({ call, numbers }: CoreCommand): string {
  const values = call === "add" ? REQUEST_NUMBERS.map(({ name, at }) => `${name} ${numbers[at]}`) : numbers;
  return `${call}(${values.join(", ")})`;
}
