/** A core with TensorRT-LLM's policies and few limits, with access to the decisions of each part of an iteration. */
import { Config, Field, ROW_BYTES, SLOTS, Word } from "../../../assembly/layout.ts";
import {
  CapacityPolicy,
  ChunkingPolicy,
  type LineField,
  TrtConfig,
  type TrtWord,
} from "../../../assembly/trtllm/layout.ts";
import { Batch } from "../../../src/engine/batch.ts";
import { PLAIN } from "../../../src/engine/core-request.ts";
import { type Core, type CoreSetup, startCore } from "../../../src/engine/wasm/core.ts";
import { EOS } from "./trace.ts";
import { TrtViews } from "./views.ts";

export const NO_LIMIT = 1 << 30;

/** A core with few limits. Requests are addressed by their ids. */
export class Bench {
  readonly core: Core;
  readonly batch: Batch;
  readonly views: TrtViews;
  readonly slots = new Map<number, number>();
  readonly handles = new Map<number, number>();

  constructor(module: WebAssembly.Module, config: CoreSetup["config"], trt: Partial<NonNullable<CoreSetup["trt"]>>) {
    this.core = startCore(module, {
      config: {
        [Config.MaxModelLen]: NO_LIMIT,
        [Config.MaxNumSeqs]: 64,
        [Config.MaxNumActiveSeqs]: 64,
        [Config.MaxNumBatchedTokens]: NO_LIMIT,
        [Config.BlockSize]: 64,
        [Config.NumGpuBlocks]: 1001,
        [Config.EosId]: EOS,
        [Config.InputLength]: 8192,
        [Config.Scale]: 1,
        ...config,
      },
      trt: {
        [TrtConfig.CapacityPolicy]: CapacityPolicy.MaxRequests,
        [TrtConfig.ChunkingPolicy]: ChunkingPolicy.FirstComeFirstServed,
        [TrtConfig.MaxBatchSize]: 64,
        [TrtConfig.MaxNumRequests]: 64,
        [TrtConfig.MaxContextLength]: NO_LIMIT,
        [TrtConfig.ChunkUnit]: 1,
        [TrtConfig.MaxInputLen]: 1000,
        [TrtConfig.PartialReuse]: 0,
        [TrtConfig.CopyOnPartialReuse]: 1,
        [TrtConfig.PrefixAwareScheduling]: 1,
        [TrtConfig.TwoStepLookahead]: 0,
        // The recorded tests of the capacity scheduler are those of the C++ executor.
        [TrtConfig.CppExecutor]: 1,
        [TrtConfig.PeftPages]: 0,
        [TrtConfig.PeftMaxPages]: 0,
        ...trt,
      },
    });
    this.batch = new Batch(this.core);
    this.views = new TrtViews(this.core);
  }

  add(
    id: number,
    prompt: number[],
    maxTokens: number,
    more: { priority?: number; lora?: number; salt?: number; drafts?: number },
  ): void {
    const handle = this.batch.add({
      ...PLAIN,
      prompt,
      promptTokens: prompt.length,
      maxTokens,
      seed: id,
      priority: -Math.round((more.priority ?? 0.5) * 1e6),
      adapter: more.lora ?? 0,
      saltLo: more.salt ?? 0,
      order: id,
      arrivalUs: 0,
      queuedUs: 0,
    });
    this.slots.set(id, handle % SLOTS);
    this.handles.set(id, handle);
    this.setField(id, Field.Drafts, more.drafts ?? 0);
  }

  get #i32(): Int32Array {
    return this.core.views.i32;
  }
  setField(id: number, field: Field, value: number): void {
    const rows = (this.core.views.word(Word.RowsAt) >>> 0) >> 2;
    this.#i32[rows + this.slots.get(id)! * (ROW_BYTES >> 2) + field] = value;
  }
  field(id: number, field: Field): number {
    return this.core.views.field(field, this.slots.get(id)!);
  }
  line(id: number, field: LineField): number {
    return this.views.line(field, this.slots.get(id)!);
  }
  setLine(id: number, field: LineField, value: number): void {
    this.views.setLine(field, this.slots.get(id)!, value);
  }

  /** Returns the ids of the requests in these slots. */
  ids(slots: readonly number[]): number[] {
    const bySlot = new Map([...this.slots].map(([id, slot]) => [slot, id]));
    return slots.map((slot) => bySlot.get(slot)!);
  }
  get active(): number[] {
    return this.ids(this.core.views.list(Word.RunningAt, this.core.views.word(Word.Running)));
  }
  list(at: TrtWord, count: TrtWord): number[] {
    return this.ids(this.views.list(at, count));
  }
}

/** Returns the exported functions of the core that run one part of an iteration each. */
export const parts = ({ exports }: Core) =>
  exports as unknown as Record<"fetch" | "capacity" | "microBatch", () => void> &
    Record<"chunkContexts" | "execute", (value: number) => number>;
