/**
 * Writes and replays crash files. A crash file records a core that trapped: message, seed, configuration, the last counters
 * and commands. It is written to the working directory. Its commands can run again in a new core, in Bun or Node.
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
/** Values of a command that its line leaves out. */
const USUAL = { words: [], handle: -1 };
const EXPECTED = "expected a file that understudy wrote when its core trapped (understudy-crash-….json)";

export interface Crash {
  readonly crash: typeof SCHEMA;
  readonly version: string;
  readonly error: string;
  readonly stack: string | undefined;
  readonly eosId: number;
  readonly engine: EngineConfig;
  /** Names of the numbers of an `add` command, after the length of its prompt. */
  readonly addFields: readonly string[];
  /** One per engine, in order of rank. */
  readonly snapshots: readonly EngineSnapshot[];
  readonly journals: readonly JournalText[];
}

/** The JSON of a crash file. */
type CrashFile = Omit<Crash, "engine"> & { readonly engine: FlatEngineConfig };

/** Writes the file into the working directory and returns its name. It contains token ids of prompts, but never API keys. */
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
  // One line per command, because people read the file too.
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

/** Most bytes of a crash file. */
const CRASH_MOST = 2 ** 28;

/** Reads a crash file. `wrong`: error message if it cannot be read or is not a crash file. */
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
 * Runs the commands of each engine in a new core. `module`: preferably the debug core, which checks more. Returns a report in
 * lines, and whether a core trapped.
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
