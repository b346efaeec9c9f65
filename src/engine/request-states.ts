/**
 * State of each request at an iteration's update, which `enable_iter_req_stats` adds to a record (`_populate_req_stats`
 * of `py_executor.py`, 1.3 line). Covers active requests, requests that arrived since the plan, and requests that just
 * ended.
 */
import { Field, Word } from "../../assembly/layout.ts";
import { LINE_BYTES, LineField, State, TrtWord } from "../../assembly/trtllm/layout.ts";
import type { Core } from "./wasm/core.ts";

export interface RequestState {
  /** Counted from 1 in the order in which plans first contained them. */
  readonly id: number;
  readonly stage: "QUEUED" | "CONTEXT_IN_PROGRESS" | "GENERATION_IN_PROGRESS" | "GENERATION_COMPLETE";
  /** Prompt tokens that are computed or cached. */
  readonly prefilled: number;
  readonly generated: number;
  readonly blocks: number;
  readonly reusedBlocks: number;
  readonly missedBlocks: number;
  readonly scheduled: boolean;
}

/** State that is kept per request. */
interface TrackedRequest {
  readonly id: number;
  readonly generation: number;
  cachedTokens: number;
  last: Omit<RequestState, "scheduled">;
}

export class RequestStates {
  readonly #core: Core;
  readonly #trt: Int32Array;
  readonly #blockSize: number;
  readonly #known = new Map<number, TrackedRequest>();
  #nextId = 1;

  constructor(core: Core, blockSize: number) {
    this.#core = core;
    this.#trt = new Int32Array(core.exports.memory.buffer, core.exports.trtWordsAt!(), TrtWord.Count);
    this.#blockSize = blockSize;
  }

  /** Records the plan that was just made and returns its slots. */
  planned(): ReadonlySet<number> {
    for (const slot of [...this.#running(), ...this.#waiting()]) this.#of(slot);
    const contexts = this.#list(TrtWord.ContextAt, TrtWord.Contexts);
    const starts = this.#list(TrtWord.ContextStartAt, TrtWord.Contexts);
    for (const [at, slot] of contexts.entries()) {
      const known = this.#of(slot);
      if (known.cachedTokens < 0) known.cachedTokens = starts[at]!;
    }
    return new Set([...contexts, ...this.#list(TrtWord.GenerationAt, TrtWord.Generations)]);
  }

  /** Returns the states after the update of that plan. `queued`: number of requests that arrived since, which are last in the queue. */
  taken(scheduled: ReadonlySet<number>, queued: number): RequestState[] {
    const running = this.#running();
    const waiting = this.#waiting();
    const states = running.map((slot): RequestState => {
      const known = this.#of(slot);
      known.last = this.#state(slot, known);
      return { ...known.last, scheduled: scheduled.has(slot) };
    });
    if (queued > 0)
      for (const slot of waiting.slice(-queued)) states.push({ ...this.#of(slot).last, scheduled: false });
    const there = new Set([...running, ...waiting]);
    for (const [slot, { generation, last }] of this.#known) {
      if (there.has(slot) && this.#generation(slot) === generation) continue;
      this.#known.delete(slot);
      if (!scheduled.has(slot)) continue;
      const generated = last.generated + 1;
      states.push({ ...last, generated, stage: "GENERATION_COMPLETE", scheduled: true });
    }
    return states;
  }

  #state(slot: number, { id, cachedTokens }: TrackedRequest): Omit<RequestState, "scheduled"> {
    const { views } = this.#core;
    const prompt = views.field(Field.Prompt, slot);
    const isContext = this.#line(slot, LineField.State) === State.ContextInit;
    const reused = Math.ceil(Math.max(0, cachedTokens) / this.#blockSize);
    const blocks = views.field(Field.TableCount, slot);
    return {
      id,
      stage: isContext ? "CONTEXT_IN_PROGRESS" : "GENERATION_IN_PROGRESS",
      prefilled: isContext ? this.#line(slot, LineField.Position) : prompt,
      generated: views.field(Field.Outputs, slot),
      blocks: Math.max(0, blocks - reused),
      reusedBlocks: Math.min(reused, blocks),
      missedBlocks: blocks === 0 ? 0 : Math.max(0, Math.ceil(prompt / this.#blockSize) - reused),
    };
  }

  #of(slot: number): TrackedRequest {
    const generation = this.#generation(slot);
    const known = this.#known.get(slot);
    if (known?.generation === generation) return known;
    const id = this.#nextId++;
    const nothing = { prefilled: 0, generated: 0, blocks: 0, reusedBlocks: 0, missedBlocks: 0 };
    const tracked: TrackedRequest = { id, generation, cachedTokens: -1, last: { id, stage: "QUEUED", ...nothing } };
    this.#known.set(slot, tracked);
    return tracked;
  }

  #generation(slot: number): number {
    return this.#core.views.field(Field.Generation, slot);
  }

  #running(): number[] {
    const { views } = this.#core;
    const from = (views.word(Word.RunningAt) >>> 0) >> 2;
    return [...views.i32.subarray(from, from + views.word(Word.Running))];
  }

  /** In the order of the queue. */
  #waiting(): number[] {
    const { views } = this.#core;
    const nextAt = (views.word(Word.WaitNextAt) >>> 0) >> 2;
    const slots: number[] = [];
    // Entries are slots plus one; 0 is the end.
    for (let place = views.word(Word.WaitHead); place > 0; place = views.i32[nextAt + place - 1]!)
      slots.push(place - 1);
    return slots;
  }

  #list(at: TrtWord, count: TrtWord): number[] {
    const from = (this.#trt[at]! >>> 0) >> 2;
    return [...this.#core.views.i32.subarray(from, from + this.#trt[count]!)];
  }

  #line(slot: number, field: LineField): number {
    const linesAt = (this.#trt[TrtWord.LinesAt]! >>> 0) >> 2;
    return this.#core.views.i32[linesAt + slot * (LINE_BYTES >> 2) + field]!;
  }
}
