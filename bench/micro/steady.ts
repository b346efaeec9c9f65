/** Runs a batch that only decodes, as in a server between two arrivals, so that its steps can be timed. */
import { NONE, Word } from "../../assembly/layout.ts";
import type { Batch } from "../../src/engine/batch.ts";
import { submit } from "./decode.ts";

/** Prompts have 16 to 31 tokens, so that the requests fill their blocks in different steps. */
const PROMPT_TOKENS = 16;
const PHASES = 16;
const ABORT = 2;

export class SteadyLoad {
  readonly #handles: number[] = [];
  #order = 0;
  #nowUs = 0;

  constructor(readonly batch: Batch) {}

  /** Starts `sequences` requests with `tokens` output tokens. Afterwards all decode, and two steps are planned ahead. */
  start(sequences: number, tokens: number): void {
    for (let i = 0; i < sequences; i++) this.#submit(tokens);
    this.batch.plan(this.#nowUs);
    this.batch.plan(this.#nowUs);
    this.run(2);
    const running = this.batch.core.views.words[Word.Running]!;
    if (running !== sequences) throw new Error(`only ${running} of ${sequences} requests are running`);
  }

  /** Adds requests that must wait, because the batch is full. */
  wait(requests: number): void {
    for (let i = 0; i < requests; i++) this.#submit(PROMPT_TOKENS);
  }

  /** Runs `steps` steps. Returns their time in nanoseconds. */
  run(steps: number): number {
    const { batch } = this;
    const began = performance.now();
    for (let i = 0; i < steps; i++) {
      batch.take(++this.#nowUs);
      batch.plan(this.#nowUs);
    }
    return (performance.now() - began) * 1e6;
  }

  /** Ends all requests. Their cached blocks stay. */
  stop(): void {
    const { batch } = this;
    for (const handle of this.#handles.splice(0)) batch.close(handle, ABORT, 0, this.#nowUs);
    while (batch.open > 0) batch.take(++this.#nowUs);
    batch.flush();
  }

  #submit(tokens: number): void {
    const order = this.#order++;
    const promptTokens = PROMPT_TOKENS + (order % PHASES);
    const handle = submit(this.batch, order, order, promptTokens, tokens, this.#nowUs);
    if (handle === NONE) throw new Error("the core has no room for more requests");
    this.#handles.push(handle);
  }
}
