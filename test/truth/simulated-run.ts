/** Shared by the truth log's simulations: a small engine under pressure, with aborts, and its log. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seeded } from "../../src/base/random.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import { flatEngineConfig } from "../../src/engine/config/engine-config.ts";
import { Engine } from "../../src/engine/engine.ts";
import { type EngineSnapshot, Finish, type Submission } from "../../src/engine/interface/types.ts";
import type { Observer, StepFacts } from "../../src/engine/observer.ts";
import { createInlineTruthLog } from "../../src/truth/log.ts";
import { observersOf } from "../../src/truth/recent.ts";
import type { EndLine, HeaderLine, RequestLine, StepLine, TruthLine } from "../../src/truth/schema.ts";
import { configOf, debug, EOS, generationOf } from "../engine/simulated-engine.ts";

export const small = configOf({ maxModelLen: 256, maxNumBatchedTokens: 64, blockSize: 4, numGpuBlocks: 66 });

export interface Plan {
  readonly seed: number;
  readonly requests: number;
  readonly config?: Partial<EngineConfig>;
  /** Advances time in slices of this many microseconds instead of from event to event. */
  readonly sliceUs?: number;
  readonly maxBytes?: number;
  /** Replaces the requests of all kinds. */
  readonly submit?: (engine: Engine, clock: VirtualClock) => void;
  /** Stops the engine at this time, even if requests are running. */
  readonly untilUs?: number;
  /** Another observer besides the log. */
  readonly observer?: Observer;
}

export interface Run {
  readonly text: string;
  readonly header: HeaderLine;
  readonly steps: readonly StepLine[];
  readonly requests: readonly RequestLine[];
  readonly end: EndLine;
  readonly snapshot: EngineSnapshot;
  /** Times at which the receiver got each token, by request id. */
  readonly tokenTimes: ReadonlyMap<string, number[]>;
}

export const plain = generationOf({ promptIds: new Uint32Array([1]), ignoreEos: true });

/** Returns the facts of a step that took a microsecond to write. Fields that are not `known` are 0. */
export const factsOf = (step: number, known: Partial<StepFacts> = {}): StepFacts => ({
  ...{ step, plannedUs: 0, dueUs: 0, startUs: 0, endUs: 1, partsUs: new Float64Array(), tokens: 1 },
  ...{ preemptions: 0, rebasedUs: 0, cause: 0 as const, oldestStep: () => Number.POSITIVE_INFINITY, ...known },
});

/**
 * Runs requests of all kinds: some are cancelled, some end at a stop string, and some are cancelled while another receives a
 * token.
 */
export async function run(plan: Plan): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-truth-"));
  const file = join(folder, "truth.jsonl");
  try {
    const config = { ...small, ...plan.config };
    const clock = new VirtualClock();
    const maxBytes = plan.maxBytes ?? 2 ** 30;
    const about = { engine: flatEngineConfig(config), engines: 1, epochUs: null };
    const log = createInlineTruthLog({ file, maxBytes, files: 1000 }, about, (line) => {
      throw new Error(line);
    });
    const { observer } = observersOf(0, log, plan.observer ? { observer: () => plan.observer! } : null);
    const engine = new Engine({ config, clock, module: debug, eosId: EOS, observer: observer!(0) });
    const tokenTimes = new Map<string, number[]>();
    if (plan.submit) plan.submit(engine, clock);
    else submitAll(plan, engine, clock, tokenTimes);
    advance(plan, clock);
    engine.stop();
    await log.close();
    const text = readFileSync(file, "utf8");
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as TruthLine);
    return {
      text,
      header: lines[0] as HeaderLine,
      steps: lines.filter((line) => line.type === "step"),
      requests: lines.filter((line) => line.type === "request"),
      end: lines.at(-1) as EndLine,
      snapshot: engine.snapshot("now"),
      tokenTimes,
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function submitAll(
  { seed, requests }: Plan,
  engine: Engine,
  clock: VirtualClock,
  tokenTimes: Map<string, number[]>,
): void {
  const random = seeded(seed);
  const below = (limit: number) => random() % limit;
  let lastSubmission: Submission | undefined;
  for (let i = 0; i < requests; i++) {
    const id = `r-${i}`;
    const arrivalUs = below(30_000);
    const stream = below(4);
    const promptIds = Uint32Array.from({ length: 1 + below(60) }, (_, at) => 100 + stream * 1000 + at);
    const [abortAfterUs, stopAt, kills] = [
      below(4) === 0 ? below(60_000) : -1,
      below(6) === 0 ? below(20) : -1,
      below(5),
    ];
    const maxTokens = 1 + below(60);
    const priority = below(3);
    clock.at(arrivalUs, () => {
      const times: number[] = [];
      tokenTimes.set(id, times);
      const victim = kills === 0 ? lastSubmission : undefined;
      let bytes = 0;
      const receiver = {
        get bytes() {
          return bytes;
        },
        onTokens: (_: Int32Array, _at: number, count: number, finish: Finish | null) => {
          for (let token = 0; token < count; token++) times.push(clock.now());
          bytes += 10 * count;
          if (finish === null && stopAt >= 0 && times.length > stopAt) submission.finish(Finish.Stop, times.length);
          if (times.length === 3) victim?.cancel();
        },
      };
      const submission = engine.submit(
        { ...plain, id, promptIds, maxTokens, seed: i, priority, arrivalUs },
        receiver,
      ) as Submission;
      lastSubmission = submission;
      if (abortAfterUs >= 0) clock.at(arrivalUs + abortAfterUs, () => submission.cancel());
    });
  }
  clock.at(20_000, () => void engine.resetPrefixCache(true));
}

function advance({ sliceUs, untilUs }: Plan, clock: VirtualClock): void {
  if (untilUs !== undefined) clock.advanceTo(untilUs);
  else if (sliceUs === undefined) clock.drain();
  else for (let us = 0; us < 5_000_000; us += sliceUs) clock.advanceTo(us);
}

/** Returns the due times of a request's tokens, from its runs and the steps. */
export function dueTimes({ runs }: RequestLine, steps: readonly StepLine[]): number[] {
  return runs.flatMap(([first, count, width = 1]) =>
    Array.from({ length: count * width }, (_, i) => steps[first - 1 + Math.floor(i / width)]!.dueUs!),
  );
}
