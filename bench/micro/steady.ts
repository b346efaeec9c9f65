/** A batch that decodes and does nothing else, as a running server's does between two arrivals: steps to be timed. */
import { NONE, Word } from "../../assembly/layout.ts";
import type { Batch } from "../../src/engine/batch.ts";
import { PLAIN } from "../../src/engine/core-request.ts";

/** Prompts of 16 to 31 tokens: a request's block is full in another step than its neighbour's. */
const PROMPT_TOKENS = 16;
const PHASES = 16;
const ABORT = 2;

export class Steady {
  readonly #handles: number[] = [];
  #order = 0;
  #nowUs = 0;

  constructor(readonly batch: Batch) {}

  /** `sequences` requests of `tokens` output tokens start; two steps are open afterwards, and all decode. */
  start(sequences: number, tokens: number): void {
    for (let i = 0; i < sequences; i++) this.#submit(tokens);
    this.batch.plan(this.#nowUs);
    this.batch.plan(this.#nowUs);
    this.run(2);
    const running = this.batch.core.views.words[Word.Running]!;
    if (running !== sequences) throw new Error(`${running} of ${sequences} requests run`);
  }

  /** Requests that find no place in the batch. */
  wait(requests: number): void {
    for (let i = 0; i < requests; i++) this.#submit(PROMPT_TOKENS);
  }

  /** Nanoseconds for `steps` steps. */
  run(steps: number): number {
    const { batch } = this;
    const began = performance.now();
    for (let i = 0; i < steps; i++) {
      batch.take(++this.#nowUs);
      batch.plan(this.#nowUs);
    }
    return (performance.now() - began) * 1e6;
  }

  /** All end now; what they cached stays. */
  stop(): void {
    const { batch } = this;
    for (const handle of this.#handles.splice(0)) batch.close(handle, ABORT, 0, this.#nowUs);
    while (batch.open > 0) batch.take(++this.#nowUs);
    batch.flush();
  }

  #submit(tokens: number): void {
    const order = this.#order++;
    const promptTokens = PROMPT_TOKENS + (order % PHASES);
    const prompt = Array.from({ length: promptTokens }, (_, k) => (Math.imul(order + 1, 7919) + k) & 0xffff);
    const handle = this.batch.add({
      ...PLAIN,
      prompt,
      promptTokens,
      maxTokens: tokens,
      seed: order,
      order,
      arrivalUs: this.#nowUs,
      queuedUs: this.#nowUs,
    });
    if (handle === NONE) throw new Error("the core took no more requests");
    this.#handles.push(handle);
  }
}
