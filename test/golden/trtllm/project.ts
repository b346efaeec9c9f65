/**
 * Runs TensorRT-LLM's tests of its schedulers, recorded as data in `project-tests.json`, on our core. They test the capacity
 * scheduler, the micro-batch scheduler and the other parts of an iteration separately.
 */
import { Config, Field } from "../../../assembly/layout.ts";
import {
  CapacityPolicy,
  ChunkingPolicy,
  LineField,
  State,
  TrtConfig,
  TrtWord,
} from "../../../assembly/trtllm/layout.ts";
import type { Recording } from "../recording.ts";
import type { Row } from "../trace.ts";
import { Bench, NO_LIMIT, parts } from "./bench.ts";

const POLICIES = {
  GUARANTEED_NO_EVICT: CapacityPolicy.GuaranteedNoEvict,
  MAX_UTILIZATION: CapacityPolicy.MaxUtilization,
  STATIC_BATCH: CapacityPolicy.StaticBatch,
};
const CHUNKING = {
  EQUAL_PROGRESS: ChunkingPolicy.EqualProgress,
  FIRST_COME_FIRST_SERVED: ChunkingPolicy.FirstComeFirstServed,
};
type Chunking = keyof typeof CHUNKING;

interface CapacityCase {
  name: string;
  policy: keyof typeof POLICIES;
  num_blocks: number;
  tokens_per_block: number;
  window: number;
  max_num_requests: number;
  requests: CapacityRequest[];
  expect: { begin: number; end: number; active: number[]; scheduled: number[][] }[];
  iterations: number;
  reuse?: boolean;
  reused_blocks?: number;
  reused_blocks_min?: number;
  peft?: { pages_per_request: number; max_pages: number };
}
interface CapacityRequest {
  id: number;
  at: number;
  prompt_len: number;
  max_new_tokens: number;
  chunk?: number;
  drafts?: number;
  lora?: number;
  priority?: number;
  tokens_from?: number;
  tokens?: [from: number, count: number][];
}
interface ChunkingCase {
  name: string;
  lengths: number[];
  drafts: number[] | null;
  unit: number;
  capacity: number | null;
  max_context_length: number | null;
  EQUAL_PROGRESS: { positions: number[][]; final_drafts: number[] | null };
  FIRST_COME_FIRST_SERVED: { positions: number[][]; final_drafts: number[] | null };
}
interface MicroBatchCase {
  name: string;
  max_batch_size: number;
  max_num_tokens: number | null;
  max_context_length: number | null;
  policy: Chunking | null;
  unit: number | null;
  requests: BatchRequest[];
  expect: { ctx?: number[]; ctx_set?: number[]; gen?: number[]; chunks?: Record<string, number> };
  superseded?: string;
}
interface BatchRequest {
  id: number;
  kind: "context" | "generation";
  prompt_len?: number;
  estimated_reusable?: number;
  context_position?: number;
  drafts?: number;
}
export interface ProjectTests {
  format: string;
  capacity: CapacityCase[];
  chunking: ChunkingCase[];
  micro_batch: MicroBatchCase[];
}

export interface ProjectTest {
  readonly name: string;
  readonly recording: Recording;
}

/** Returns every test that holds for the recorded version. Tests that a later version superseded are left out. */
export function projectTests(tests: ProjectTests): ProjectTest[] {
  const { capacity, chunking, micro_batch } = tests;
  const policies = Object.keys(CHUNKING) as Chunking[];
  return [
    ...capacity.map((test) => ({ name: `capacity/${test.policy}/${test.name}`, recording: capacityTest(test) })),
    ...chunking.flatMap((test) =>
      policies.map((policy) => ({ name: `chunking/${policy}/${test.name}`, recording: chunkingTest(test, policy) })),
    ),
    ...micro_batch
      .filter(({ superseded }) => superseded === undefined)
      .map((test) => ({ name: `micro_batch/${test.name}`, recording: microBatchTest(test) })),
  ];
}

const sorted = (ids: readonly number[]) => ids.toSorted((a, b) => a - b);

function promptOf({ prompt_len, tokens_from, tokens }: CapacityRequest): number[] {
  if (tokens_from !== undefined) return Array.from({ length: prompt_len }, (_, i) => tokens_from + i);
  if (!tokens) return new Array(prompt_len).fill(1);
  return tokens.flatMap(([from, count]) =>
    count < 0 ? new Array<number>(-count).fill(from) : Array.from({ length: count }, (_, i) => from + i),
  );
}

/** Makes a recording whose rows are ranges of iterations, and then the end. */
function capacityTest(test: CapacityCase): Recording {
  const { iterations, reused_blocks } = test;
  const end = { t: "end", iterations, ...(reused_blocks === undefined ? {} : { reused_blocks }) };
  const rows: Row[] = [...test.expect.map((range) => ({ t: "range", ...range })), end];
  return { rows, start: (module) => new CapacityTest(test, module) };
}

class CapacityTest {
  readonly #test: CapacityCase;
  readonly #bench: Bench;
  readonly #paused = new Set<number>();
  #it = 0;

  constructor(test: CapacityCase, module: WebAssembly.Module) {
    this.#test = test;
    const { policy, num_blocks, tokens_per_block, window, max_num_requests, reuse = false, peft } = test;
    this.#bench = new Bench(
      module,
      {
        [Config.MaxModelLen]: window,
        [Config.BlockSize]: tokens_per_block,
        [Config.NumGpuBlocks]: num_blocks + 1,
        [Config.EnablePrefixCaching]: Number(reuse),
        [Config.EnableChunkedPrefill]: 1,
      },
      {
        [TrtConfig.CapacityPolicy]: POLICIES[policy],
        [TrtConfig.MaxNumRequests]: max_num_requests,
        [TrtConfig.PeftPages]: peft?.pages_per_request ?? 0,
        [TrtConfig.PeftMaxPages]: peft?.max_pages ?? 0,
      },
    );
  }

  run(row: Row): Row {
    if (row.t === "end") return this.#end(row);
    const { begin, end } = row as { begin: number; end: number };
    const last = Math.min(end, this.#test.iterations);
    while (this.#it < begin) this.#iterate();
    const first = this.#iterate();
    let other = first;
    // If the decisions in a range differ, the first different iteration is returned for the whole range.
    while (this.#it < last && this.#ids(other) === this.#ids(first)) other = this.#iterate();
    return { t: "range", begin, end, ...(this.#ids(other) === this.#ids(first) ? first : other) };
  }

  #ids({ active, scheduled }: Row): string {
    return JSON.stringify([active, (scheduled as number[][]).map(([id]) => id)]);
  }

  #iterate(): Row {
    const bench = this.#bench;
    const { exports } = bench.core;
    const calls = parts(bench.core);
    const loras = [...new Set(this.#test.requests.map(({ lora }) => lora))];
    for (const request of this.#test.requests.filter(({ at }) => at === this.#it)) {
      const lora = request.lora === undefined ? 0 : loras.indexOf(request.lora) + 1;
      bench.add(request.id, promptOf(request), request.max_new_tokens, { ...request, lora });
    }
    calls.fetch();
    calls.capacity();
    const { active } = bench;
    const scheduled = sorted(bench.list(TrtWord.FitAt, TrtWord.Fit)).map((id) => {
      const context = bench.line(id, LineField.Context);
      const left = bench.line(id, LineField.End) - context;
      return [id, left, context, bench.line(id, LineField.Length) - context, bench.line(id, LineField.Position)];
    });
    for (const id of bench.list(TrtWord.PausedAt, TrtWord.Paused)) this.#paused.add(id);
    calls.microBatch();
    for (const id of bench.list(TrtWord.ContextAt, TrtWord.Contexts)) {
      // A pause resets the chunk to the whole prompt.
      if (this.#paused.has(id)) continue;
      const { chunk = NO_LIMIT } = this.#test.requests.find((request) => request.id === id)!;
      bench.setLine(id, LineField.Chunk, Math.min(chunk, bench.line(id, LineField.Chunk)));
    }
    calls.execute(this.#it);
    exports.update(this.#it);
    this.#it++;
    return { active, scheduled };
  }

  #end(row: Row): Row {
    const reused = this.#bench.views.totals()[2]!;
    const { reused_blocks_min: least = 0 } = this.#test;
    if (reused < least) throw new Error(`${reused} blocks were reused, not ${least}`);
    const rest = "reused_blocks" in row ? { reused_blocks: reused } : {};
    // Run until no request is active, or until the test ends.
    while (this.#bench.core.exports.hasWork() && this.#it < (row.iterations as number)) this.#iterate();
    return { t: "end", iterations: this.#it, ...rest };
  }
}

/** Makes a recording whose rows are the positions after each call. The last row has the remaining draft tokens. */
function chunkingTest(test: ChunkingCase, policy: Chunking): Recording {
  const { positions, final_drafts } = test[policy];
  const rows: Row[] = positions.map((each) => ({ t: "call", positions: each }));
  if (final_drafts) rows.push({ t: "end", final_drafts });
  return { rows, start: (module) => new ChunkingTest(test, policy, module) };
}

class ChunkingTest {
  readonly #lengths: readonly number[];
  readonly #drafts: number[];
  readonly #positions: number[];
  readonly #bench: Bench;
  readonly #capacity: number;

  constructor(
    { lengths, drafts, unit, capacity, max_context_length }: ChunkingCase,
    policy: Chunking,
    module: WebAssembly.Module,
  ) {
    this.#lengths = lengths;
    this.#drafts = lengths.map((_, i) => drafts?.[i] ?? 0);
    this.#positions = lengths.map(() => 0);
    this.#capacity = capacity ?? NO_LIMIT;
    this.#bench = new Bench(
      module,
      { [Config.EnableChunkedPrefill]: 1 },
      {
        [TrtConfig.ChunkingPolicy]: CHUNKING[policy],
        [TrtConfig.MaxContextLength]: max_context_length ?? NO_LIMIT,
        [TrtConfig.ChunkUnit]: unit,
      },
    );
    // Each request generates one token, so that it ends with its context, as in the original test.
    for (const [i, length] of lengths.entries()) {
      this.#bench.add(i, new Array(length).fill(1), 1, { drafts: this.#drafts[i]! });
    }
  }

  run(row: Row): Row {
    if (row.t === "end") return { t: "end", final_drafts: this.#drafts };
    const bench = this.#bench;
    const calls = parts(bench.core);
    calls.fetch();
    calls.capacity();
    calls.chunkContexts(this.#capacity);
    const { active } = bench;
    for (const i of active) this.#drafts[i] = bench.field(i, Field.Drafts);
    calls.execute(0);
    bench.core.exports.update(0);
    for (const i of active) {
      this.#positions[i] = bench.active.includes(i) ? bench.line(i, LineField.Position) : this.#lengths[i]!;
    }
    return { t: "call", positions: [...this.#positions] };
  }
}

/** Makes a recording with one row: the batch. */
function microBatchTest(test: MicroBatchCase): Recording {
  return {
    rows: [{ t: "batch", ...test.expect }],
    start: (module) => ({ run: (row) => playBatch(test, module, row) }),
  };
}

function playBatch(test: MicroBatchCase, module: WebAssembly.Module, row: Row): Row {
  const bench = new Bench(
    module,
    {
      [Config.MaxNumBatchedTokens]: test.max_num_tokens ?? NO_LIMIT,
      [Config.EnableChunkedPrefill]: Number(test.policy !== null),
    },
    {
      [TrtConfig.ChunkingPolicy]: CHUNKING[test.policy ?? "FIRST_COME_FIRST_SERVED"],
      [TrtConfig.MaxBatchSize]: test.max_batch_size,
      [TrtConfig.MaxContextLength]: test.max_context_length ?? NO_LIMIT,
      [TrtConfig.ChunkUnit]: test.unit ?? 1,
    },
  );
  const calls = parts(bench.core);
  for (const { id, prompt_len = 1, drafts } of test.requests)
    bench.add(id, new Array(prompt_len).fill(1), 8, { drafts: drafts ?? 0 });
  calls.fetch();
  calls.capacity();
  for (const { id, kind, estimated_reusable = 0, context_position = 0 } of test.requests) {
    bench.setLine(id, LineField.Reusable, estimated_reusable);
    bench.setLine(id, LineField.Position, context_position);
    if (context_position > 0) bench.setLine(id, LineField.Room, 64);
    if (kind === "generation") bench.setLine(id, LineField.State, State.GenerationInProgress);
  }
  calls.microBatch();
  const contexts = bench.list(TrtWord.ContextAt, TrtWord.Contexts);
  const chunkOf = (id: string) => (contexts.includes(Number(id)) ? bench.line(Number(id), LineField.Chunk) : 0);
  const ours: Record<string, () => unknown> = {
    ctx: () => contexts,
    ctx_set: () => sorted(contexts),
    gen: () => bench.list(TrtWord.GenerationAt, TrtWord.Generations),
    chunks: () => Object.fromEntries(Object.keys(row.chunks as object).map((id) => [id, chunkOf(id)])),
  };
  const expectedKeys = Object.keys(test.expect);
  return { t: "batch", ...Object.fromEntries(expectedKeys.map((key) => [key, ours[key]!()])) };
}

/**
 * Adds requests with these priorities one after the other. Returns their ids in the order of the C++ executor's active list.
 */
export function activeOrder(priorities: readonly number[], module: WebAssembly.Module): number[] {
  const bench = new Bench(module, {}, {});
  for (const [id, priority] of priorities.entries()) bench.add(id, [1], 1, { priority });
  parts(bench.core).fetch();
  return bench.active;
}
