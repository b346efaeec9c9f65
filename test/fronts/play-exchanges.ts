/**
 * Repeats recorded exchanges through a real front end, with the recorded tokens from an engine of ours. Bodies are sent as
 * recorded.
 */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/cli/front/free-port.ts";
import { readScript, type Script } from "../../src/text/canned/script.ts";
import { type Case, exchangesOf, type Folder, type Response } from "../conformance/api/cases.ts";
import { exchange } from "../conformance/api/wire.ts";
import { FedEngine } from "./fed-engine.ts";
import { type FrontName, startFront } from "./real-front.ts";

/** A recorded case and what the front end answered. */
export interface PlayedCase {
  readonly recorded: Case;
  /** The answer with placeholders, or the error if none came. */
  readonly answer: Response | { readonly error: string };
}

/** Flags of the recordings' server that the front end has, too, and of its scheduler. */
const SERVER: Readonly<Record<FrontName, readonly string[]>> = {
  python: [
    "--no-async-scheduling",
    ..."--max-num-batched-tokens 4096 --max-num-seqs 64 --block-size 16 --num-gpu-blocks-override 512".split(" "),
  ],
  "vllm-rs": [],
};
const ENGINE = [
  ..."--max-num-batched-tokens 4096 --max-num-seqs 64 --block-size 16 --num-gpu-blocks-override 512".split(" "),
  ..."--max-model-len 1024 --served-model-name golden --seed 1 --enable-lora --max-loras 4 --timing none".split(" "),
];
/** Time between steps. If it is too short for the front end, it merges steps. */
const STEP_MS = 5;
/** Time until the requests of all choices have reached the engine. */
const TOGETHER_S = 0.03;
/** Further tries for a case that differs, with more time between steps. */
const SLOWER = [4, 12, 40];

/** Reports whether one request is all of a case, and its server answers it alone. */
export function isSingle(recorded: Case): boolean {
  const { script, exchanges, background, release_after_s } = recorded;
  const apart = ["burst", "engine_dies_at_step", "hold_after", "release_after_s"];
  if (exchanges !== undefined || background !== undefined || release_after_s !== undefined) return false;
  return !apart.some((key) => script?.[key] !== undefined);
}

/**
 * Plays all cases, a front end per set of flags. Cases for which `isAsExpected` is false are tried again slower, because a front
 * end that gets two steps at once merges them.
 */
export async function playExchanges(
  name: FrontName,
  { cases, model, clean }: Folder,
  isAsExpected: (played: PlayedCase) => boolean,
): Promise<PlayedCase[]> {
  const all: PlayedCase[] = [];
  const folder = mkdtempSync(join(tmpdir(), "understudy-fronts-"));
  symlinkSync(model, join(folder, "model"));
  for (const group of groupsOf(cases)) {
    const { server_flags: flags = [], server_env: env = {} } = group[0]!;
    const named = flags.includes("--served-model-name") ? [] : ["--served-model-name", "golden"];
    const rpcPort = await freePort();
    const parser = flags.includes("--reasoning-parser")
      ? flags.slice(flags.indexOf("--reasoning-parser")).slice(0, 2)
      : [];
    const engine = await FedEngine.start([
      ...["--data-parallel-rpc-port", `${rpcPort}`, "--tokenizer", model, ...ENGINE, ...parser],
    ]);
    try {
      const front = await startFront(name, { rpcPort, folder, env, flags: [...named, ...flags, ...SERVER[name]] });
      const play = async (recorded: Case, slower: number): Promise<PlayedCase> => {
        engine.feed(scriptsOf(recorded, STEP_MS * slower));
        const answer = await exchange(recorded.request, front.port, clean).then(
          ({ response }) => response,
          (error: Error) => ({ error: error.message }),
        );
        await engine.idle();
        return { recorded, answer };
      };
      for (const recorded of group) {
        let played = await play(recorded, 1);
        for (const slower of SLOWER) if (!isAsExpected(played)) played = await play(recorded, slower);
        all.push(played);
      }
      await front.stop();
    } catch (error) {
      const answer = { error: `no front end: ${(error as Error).message.slice(-600)}` };
      for (const recorded of group) if (!all.some((one) => one.recorded === recorded)) all.push({ recorded, answer });
    } finally {
      await engine.stop();
    }
  }
  rmSync(folder, { recursive: true });
  return all;
}

function groupsOf(cases: readonly Case[]): Case[][] {
  const groups = new Map<string, Case[]>();
  for (const recorded of cases) {
    const key = JSON.stringify([recorded.server_flags ?? [], recorded.server_env ?? {}]);
    groups.set(key, [...(groups.get(key) ?? []), recorded]);
  }
  return [...groups.values()];
}

interface RecordedSequence {
  readonly steps: readonly (readonly number[])[];
}

/** Returns a script per request of the engine. All requests are in the engine before the first step, as recorded. */
function scriptsOf(recorded: Case, stepMs: number): Script[] {
  const {
    sequences = [],
    expected: _,
    ...rest
  } = (exchangesOf(recorded)[0]!.script ?? {}) as {
    readonly sequences?: readonly RecordedSequence[];
    readonly expected?: number;
  };
  const delayMs = sequences.length > 1 ? TOGETHER_S * 1000 : 0;
  return sequences.map((sequence, at) => {
    const times_ms = Array.from({ length: sequence.steps.length + 1 }, (_, step) => delayMs + (step + 1) * stepMs);
    const held = at === 0 && sequences.length > 1 ? { hold_after: 0, release_after_s: TOGETHER_S } : {};
    return readScript({ ...rest, logprobs: "ranked", ...held, sequences: [{ ...sequence, times_ms }] }, recorded.name);
  });
}
