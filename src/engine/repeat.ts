/** Replays a journal of core commands on a fresh core to reproduce a crash. */
import { NONE, type Pause, type Reason, SUBMIT_HASHED, SUBMIT_IGNORE_EOS } from "../../assembly/layout.ts";
import { Batch } from "./batch.ts";
import type { EngineConfig } from "./config/engine-config.ts";
import { PLAIN } from "./core-request.ts";
import { type CoreCommand, type JournalText, type RequestFromMemory, requestOf } from "./journal.ts";
import { coreSetup, type SetupExtras, STOP_IDS_MOST } from "./setup.ts";
import { startCore } from "./wasm/core.ts";

export interface ReplayResult {
  /** Commands that ran, including the one that trapped. */
  readonly commandsRun: number;
  /** Skipped commands: they name a request that this core does not have, or a step that it would not plan. */
  readonly skipped: number;
  /** Requests that got a different handle. From the first of them on, the history differs. */
  readonly differentHandles: number;
  /** The error and the command that caused it. null: no error. */
  readonly trap: { readonly error: Error; readonly command: CoreCommand } | null;
}

/** `module`: preferably the debug core, which checks invariants after each call. The replay is exact if the journal is complete. */
export function replayJournal(
  module: WebAssembly.Module,
  config: EngineConfig,
  extras: SetupExtras,
  { commands, remembered }: JournalText,
): ReplayResult {
  const stopIdsMost = commands.reduce((most, { words }) => Math.max(most, words?.length ?? 0), STOP_IDS_MOST);
  const batch = new Batch(startCore(module, coreSetup(config, { ...extras, stopIdsMost })));
  /** Handles of this core by handles of the journal. */
  const handles = new Map<number, number>();
  const startUs = commands.find(({ call }) => call === "plan")?.numbers[0] ?? 0;
  for (const [i, request] of remembered.entries()) handles.set(request.handle, resubmit(batch, request, i, startUs));
  let [commandsRun, skipped, differentHandles] = [0, 0, 0];
  for (const command of commands) {
    try {
      if (runCommand(batch, command, handles)) commandsRun++;
      else skipped++;
      if (command.call === "add" && handles.get(command.handle) !== command.handle) differentHandles++;
    } catch (error) {
      return { commandsRun: commandsRun + 1, skipped, differentHandles, trap: { error: error as Error, command } };
    }
  }
  return { commandsRun, skipped, differentHandles, trap: null };
}

/** Submits a request again whose `add` was dropped. It starts at its first token and shares no blocks. */
function resubmit(
  batch: Batch,
  { handle: _, outputTokens: __, ...numbers }: RequestFromMemory,
  i: number,
  startUs: number,
): number {
  return batch.add({
    ...PLAIN,
    ...numbers,
    prompt: [],
    flags: SUBMIT_HASHED | (numbers.eosAt === 0 ? SUBMIT_IGNORE_EOS : 0),
    order: -1 - i,
    arrivalUs: startUs,
    queuedUs: startUs,
  });
}

/** Runs a command. Returns false if it cannot apply. */
function runCommand(batch: Batch, command: CoreCommand, handles: Map<number, number>): boolean {
  const { call, numbers, words } = command;
  const [a = 0, b = 0, c = 0, d = 0] = numbers;
  switch (call) {
    case "add":
      handles.set(command.handle, batch.add(requestOf(command)));
      return true;
    case "feed":
    case "unblock":
    case "close": {
      const handle = handles.get(a) ?? NONE;
      if (handle === NONE || words === null) return false;
      if (call === "feed") batch.feed(handle, words);
      else if (call === "unblock") batch.unblock(handle);
      else batch.close(handle, b as Reason, c, d);
      return true;
    }
    case "plan":
      if (!batch.hasWork) return false;
      batch.plan(a);
      return true;
    case "take":
      if (batch.open === 0) return false;
      batch.take(a);
      return true;
    case "flush":
      batch.flush();
      return true;
    case "pause":
      batch.pause(a as Pause);
      return true;
    case "resetPrefixCache":
      batch.resetPrefixCache(a !== 0);
      return true;
  }
}
