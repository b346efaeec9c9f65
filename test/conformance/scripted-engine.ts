/**
 * An engine that plays given tokens, one step per entry, with all requests of a case in the engine before the first step. It
 * detects ends like vLLM's scheduler (check_stop in `v1/core/sched/utils.py`).
 */
import {
  Finish,
  type Generation,
  type Receiver,
  type Refusal,
  type Submission,
} from "../../src/engine/interface/types.ts";
import type { Backend } from "../../src/kernel/backend.ts";
import type { Candidates } from "../../src/servers/openai/request/logprob-source.ts";

export interface Script {
  readonly sequences: readonly {
    readonly steps: readonly (readonly number[])[];
    readonly finish?: "error";
    readonly minus_infinity_at?: readonly number[];
  }[];
  readonly expected?: number;
  readonly burst?: boolean;
}

const EOS = 1;
const BLOCK = 16;

interface ScriptedRequest {
  readonly generation: Generation;
  readonly promptIds: readonly number[];
  readonly receiver: Receiver;
  readonly steps: readonly (readonly number[])[];
  readonly fails: boolean;
  step: number;
  tokens: number;
  over: boolean;
}

export class ScriptedEngine implements Backend {
  /** Limit of requests at a time. Further requests are refused. */
  queueLimit = Number.POSITIVE_INFINITY;
  /** Number of steps after which the engine pauses. */
  holdAfter = Number.POSITIVE_INFINITY;
  /** Number of tokens after which repetition is detected. */
  repetitionAt = Number.POSITIVE_INFINITY;
  readonly received: ScriptedRequest[] = [];
  readonly #script: Script;
  /** Blocks in the prefix cache, by all ids up to their end. */
  readonly cache: Set<string>;
  steps = 0;
  #busy = false;

  /** `cache`: the prefix cache of an engine that this one replaces. */
  constructor(script: Script | null, cache = new Set<string>()) {
    this.cache = cache;
    this.#script = script ?? { sequences: [] };
  }

  async spare(): Promise<void> {}

  consumed(): void {}

  nowUs(): number {
    return 0;
  }

  submit(generation: Generation, receiver: Receiver): Submission | Refusal {
    if (this.received.filter(({ over }) => !over).length >= this.queueLimit) return { refused: "busy" };
    const sequence = this.#script.sequences[this.received.length];
    const steps = sequence?.steps ?? [];
    const promptIds = [...generation.promptIds];
    const running: ScriptedRequest = {
      generation,
      promptIds,
      receiver,
      steps: this.#script.burst ? [steps.flat()] : steps,
      fails: sequence?.finish === "error",
      step: 0,
      tokens: 0,
      over: false,
    };
    this.received.push(running);
    const cachedTokens = this.#cachedTokens(promptIds);
    void this.run();
    const end = () => {
      running.over = true;
    };
    return { cancel: end, finish: end, release() {}, cachedTokens };
  }

  /** Aborts running requests, like a paused server. */
  abortAll(): void {
    for (const running of this.received) {
      if (running.over) continue;
      running.over = true;
      running.receiver.onTokens(new Int32Array(0), 0, 0, Finish.Abort, -1);
    }
  }

  async run(): Promise<void> {
    if (this.#busy || this.received.length < (this.#script.expected ?? this.#script.sequences.length)) return;
    this.#busy = true;
    while (this.received.some(({ over }) => !over) && this.steps < this.holdAfter) {
      await new Promise(setImmediate); // lets streams start and bytes be sent
      this.steps++;
      for (const running of [...this.received]) if (!running.over) this.#play(running);
    }
    this.#busy = false;
  }

  #play(running: ScriptedRequest): void {
    const stepTokens = running.steps[running.step++] ?? [EOS];
    const ids: number[] = [];
    let finish: Finish | null = null;
    let stopTokenId = -1;
    for (const id of stepTokens) {
      ids.push(id);
      running.tokens++;
      const { ignoreEos, stopTokenIds, maxTokens } = running.generation;
      if (id === EOS && !ignoreEos) finish = Finish.Stop;
      else if (stopTokenIds.includes(id)) [finish, stopTokenId] = [Finish.Stop, id];
      else if (running.tokens >= maxTokens) finish = Finish.Length;
      else if (running.tokens >= this.repetitionAt) finish = Finish.Repetition;
      if (finish !== null) break;
    }
    if (finish === null && running.fails && running.step >= running.steps.length) {
      finish = Finish.Error;
      ids.length = 0;
    }
    running.over = finish !== null;
    // Pass a part of a longer buffer and overwrite it afterwards, like the real engine, which reuses its buffer.
    const buffer = Int32Array.from([-1, -1, ...ids, -1]);
    running.receiver.onTokens(buffer, 2, ids.length, finish, stopTokenId);
    buffer.fill(-2);
  }

  /** Returns the cached tokens of a prefix cache of whole blocks that never evicts. */
  #cachedTokens(ids: readonly number[]): number {
    let cached = 0;
    for (let end = BLOCK; end <= ids.length; end += BLOCK) {
      const key = ids.slice(0, end).join();
      if (this.cache.has(key) && end < ids.length) cached = end;
      this.cache.add(key);
    }
    return cached;
  }
}

/** Returns a function with the recordings' log probabilities. */
export function scriptedLogprobs(vocabularySize: number, minusInfinityAt: readonly number[] = []) {
  return (_seed: number, id: number, position: number, count: number): Candidates => {
    const rank = position % 3 === 2 ? 2 : 0;
    const scoreOf = (j: number) => -0.5 * (j + 1) - 0.125 * (position % 4);
    const logprob = minusInfinityAt.includes(position) ? Number.NEGATIVE_INFINITY : scoreOf(rank);
    const ids = Array.from({ length: count }, (_, j) => (id + 7 * (j - rank) + 7 * vocabularySize) % vocabularySize);
    return { logprob, rank: rank + 1, ids, logprobs: ids.map((_, j) => scoreOf(j)) };
  };
}
