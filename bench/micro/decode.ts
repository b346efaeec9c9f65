/** Runs the core with the scheduling calls of the live loop, but without clock, sockets or text. */
import { Word } from "../../assembly/layout.ts";
import { engineConfig } from "../../src/embed/options.ts";
import { Batch } from "../../src/engine/batch.ts";
import type { EngineConfig } from "../../src/engine/config/engine-config.ts";
import { PLAIN } from "../../src/engine/core-request.ts";
import { coreSetup } from "../../src/engine/setup.ts";
import { coreName } from "../../src/engine/trtllm-setup.ts";
import { startCore } from "../../src/engine/wasm/core.ts";
import { loadAnswers } from "../../src/text/answers/answers.ts";
import { root } from "../lib/bench.ts";

const PROMPT_TOKENS = 16;
const EOS_ID = 200_002;

/** Returns the tokens per request that fit the KV pool without preemption, at most 1,600. */
export function tokensThatFit(sequences: number): number {
  return Math.min(1600, Math.floor((config.numGpuBlocks * config.blockSize) / sequences) - 64);
}

/** The server's configuration with the KV pool of its default preset, but without step times. */
const { engine: config } = engineConfig({ maxModelLen: 8192, maxNumBatchedTokens: 32_768, timing: "none" });

/** Loads the core that the configuration needs, in its release build, with the server's answers. */
export async function loadDecoding(changed: Partial<EngineConfig> = {}): Promise<Batch> {
  const answers = loadAnswers(await Bun.file(`${root}build/answers.bin`).bytes());
  const decoding = { ...config, ...changed };
  const bytes = await Bun.file(`${root}build/${coreName(decoding)}.wasm`).bytes();
  const setup = coreSetup(decoding, { eosId: EOS_ID, answers });
  return new Batch(startCore(await WebAssembly.compile(bytes), setup));
}

interface DecodeResult {
  readonly tokens: number;
  readonly steps: number;
  readonly ms: number;
  readonly checksum: number;
}

let order = 0;
let nowUs = 0;

/**
 * Decodes `sequences` requests of `tokens` tokens each. Measures from the first step in which all decode to the last step. Two
 * steps are planned ahead, like in the live loop by default. The checksum covers the first and last token of each outbox.
 */
export function decode(batch: Batch, sequences: number, tokens: number): DecodeResult {
  for (let i = 0; i < sequences; i++) submit(batch, i, order++, PROMPT_TOKENS, tokens, nowUs);
  const { views } = batch.core;
  batch.plan(nowUs);
  batch.plan(nowUs);
  let [count, steps, checksum] = [0, 0, 0];
  batch.take(++nowUs); // the prefill
  batch.plan(nowUs);
  const began = performance.now();
  while (batch.open > 0) {
    batch.take(++nowUs);
    const made = views.words[Word.OutTokens]!;
    count += made;
    if (made > 0) checksum = (Math.imul(checksum, 31) + views.tokens[0]! + views.tokens[made - 1]!) | 0;
    steps++;
    if (batch.hasWork) batch.plan(nowUs);
  }
  return { tokens: count, steps, ms: performance.now() - began, checksum };
}

/** Adds a request whose token ids and seed follow from `n`. Returns its handle, or `NONE` if the core has no room. */
export function submit(batch: Batch, n: number, order: number, promptTokens: number, maxTokens: number, nowUs: number) {
  const prompt = Array.from({ length: promptTokens }, (_, k) => (Math.imul(n + 1, 7919) + k) & 0xffff);
  const times = { arrivalUs: nowUs, queuedUs: nowUs };
  return batch.add({ ...PLAIN, prompt, promptTokens, maxTokens, seed: n + 1, order, ...times });
}
