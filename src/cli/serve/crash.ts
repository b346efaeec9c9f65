/**
 * What is kept of a broken invariant, and does it break again? The core's words, seed and configuration, the last counters
 * and commands, in a file beside the process. The file's commands run in a new core, in Bun or Node.
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
/** Left out of a line where it is so. */
const USUAL = { words: [], handle: -1 };
const EXPECTED = "expected a file that understudy wrote when its core trapped (understudy-crash-….json)";

export interface Crash {
  readonly crash: typeof SCHEMA;
  readonly version: string;
  readonly error: string;
  readonly stack: string | undefined;
  readonly eosId: number;
  readonly engine: EngineConfig;
  /** What the numbers of an `add` are, behind the length of its prompt. */
  readonly addFields: readonly string[];
  /** By engine. */
  readonly snapshots: readonly EngineSnapshot[];
  readonly journals: readonly JournalText[];
}

/** A crash as its file has it. */
type CrashFile = Omit<Crash, "engine"> & { readonly engine: FlatEngineConfig };

/** Writes the file into the working directory; its name. Keys never enter it, token ids of prompts do. */
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
  // A line for each command: the file is read by people, too.
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

/** The file's content, or one line that says what is wrong with it. */
export function readCrash(path: string): Crash | { readonly wrong: string } {
  try {
    const crash = JSON.parse(textAtMost(path, CRASH_MOST)) as CrashFile;
    if (crash.crash === SCHEMA && Array.isArray(crash.journals)) {
      const whole = (one: Partial<CoreCommand>) => ({ ...USUAL, ...one }) as CoreCommand;
      const journals = crash.journals.map((text) => ({ ...text, commands: text.commands.map(whole) }));
      return { ...crash, engine: engineConfigOf(crash.engine), journals };
    }
  } catch (failure) {
    const { code } = failure as { code?: string };
    if (code !== undefined) return { wrong: `cannot read "${path}" (${code})` };
  }
  return { wrong: `${path}: ${EXPECTED}` };
}

/** Runs the commands of each engine in `module`, best the debug core; what came of it in lines, and whether one trapped. */
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
    const whole = forgotten === 0 ? "the whole life of its core" : `${forgotten} earlier ones are lost`;
    lines.push(`engine ${rank}: ${commands.length} commands, ${whole}`);
    if (forgotten > 0) lines.push(`  begun anew: ${remembered.length} requests that came earlier, an empty cache`);
    const { commandsRun, skipped, differentHandles, trap } = replayJournal(module, engine, { eosId, answers }, journal);
    if (skipped > 0) lines.push(`  passed over: ${skipped} that have nothing to act on`);
    if (forgotten === 0 && differentHandles > 0)
      lines.push(`  another history: ${differentHandles} requests have another place in the core`);
    lines.push(`  given: ${commandsRun}; ${trap === null ? "nothing broke" : `broke in ${shown(trap.command)}`}`);
    if (trap !== null) lines.push(...`${trap.error.stack ?? trap.error}`.split("\n").map((line) => `  ${line}`));
    trapped ||= trap !== null;
  }
  return { lines, trapped };
}

function shown({ call, numbers }: CoreCommand): string {
  const told = call === "add" ? REQUEST_NUMBERS.map(({ name, at }) => `${name} ${numbers[at]}`) : numbers;
  return `${call}(${told.join(", ")})`;
}
