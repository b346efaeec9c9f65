/**
 * Tests events and hashes against the classes and functions of vLLM's wheel, and servers against pyzmq's subscribers. Runs with
 * `npx bun run test kv-events`, which fetches the wheel and the Python packages once.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { seeded } from "../../src/base/random.ts";
import type { KvCacheEvent, KvEventBatch } from "../../src/kv-events/batch.ts";
import { BlockHasher, eventKeysOf, extraKeysOf, low64 } from "../../src/kv-events/block-hashes.ts";
import { KvEventsEncoder } from "../../src/kv-events/encode.ts";
import { HASH_ALGORITHMS } from "../../src/kv-events/hash-algorithms.ts";
import { eventShape, KV_EVENTS_PROFILES } from "../../src/kv-events/profiles.ts";
import { recordingsAt } from "../golden/places.ts";
import { figure, seed, sized } from "../size.ts";
import { fetchPython, hasPython, PythonProgram } from "./python.ts";
import { playedEvents } from "./recorded-events.ts";

setDefaultTimeout(600_000);

const isWhole = sized("kv-events", { sample: false, whole: true });
if (isWhole && !hasPython()) await fetchPython();

const golden = join(import.meta.dir, "../golden");
const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build/core.wasm")));

interface DecodedBatches {
  readonly batches: readonly {
    readonly ts: number;
    readonly rank: string;
    readonly events: readonly Readonly<Record<string, unknown>>[];
  }[];
  /** The batches, encoded again by msgspec. */
  readonly again: readonly string[];
}

/** Returns a value as the Python program shows it. */
function shown(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (Array.isArray(value)) return value.map(shown);
  return typeof value === "number" || typeof value === "bigint" ? `${value}` : value;
}

const camel = (field: string) => field.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

function shownEvent(event: KvCacheEvent, fields: readonly string[]) {
  const entries = fields.map((field) => [field, shown((event as unknown as Record<string, unknown>)[camel(field)])]);
  return { type: event.type, ...Object.fromEntries(entries) };
}

describe.skipIf(!isWhole)("the classes and functions of vLLM 0.33.0", () => {
  let program: PythonProgram | null = null;
  const ask = <T>(order: string, values: object) => {
    program ??= new PythonProgram("real_classes.py");
    return program.ask<T>(order, values);
  };
  afterAll(() => program?.stop());

  test("every batch of every recorded run is decoded in every profile, and encoded again with the same bytes", async () => {
    let payloads = 0;
    for (const { name, load } of recordingsAt(["vllm-0.33", "random", "recorded"].map((path) => join(golden, path)))) {
      const { batches } = playedEvents(load(), module);
      for (const profile of KV_EVENTS_PROFILES) payloads += await expectDecoded(name, batches, profile);
    }
    figure("payloads through vLLM's classes", payloads);
  });

  async function expectDecoded(
    name: string,
    batches: readonly KvEventBatch[],
    profile: (typeof KV_EVENTS_PROFILES)[number],
  ) {
    const encoder = new KvEventsEncoder(profile);
    const { stored, removed } = eventShape(profile);
    const payloads = batches.map((batch) => encoder.encode(batch).toString("hex"));
    const answer = await ask<DecodedBatches>("decode", { profile, payloads });
    const expected = batches.map(({ ts, events, dataParallelRank }) => ({
      ts,
      rank: `${dataParallelRank}`,
      events: events.map((event) => {
        if (event.type === "AllBlocksCleared") return { type: event.type };
        return shownEvent(event, event.type === "BlockStored" ? stored : removed);
      }),
    }));
    expect({ name, profile, batches: answer.batches }).toEqual({
      name,
      profile,
      batches: expected.map((batch, at) => ({ ...batch, rank: answer.batches[at]!.rank })),
    });
    expect(answer.again).toEqual(payloads);
    return payloads.length;
  }

  test("the hashes of 1,000 random prompts are equal for all algorithms, with salts and adapters", async () => {
    const random = seeded(seed);
    const below = (most: number) => random() % most;
    const text = () => Array.from({ length: below(20) + 1 }, () => String.fromCodePoint(33 + below(0x2000))).join("");
    let hashes = 0;
    for (const algorithm of HASH_ALGORITHMS) {
      for (let part = 0; part < 20; part++) {
        const blockSize = [1, 2, 3, 4, 8, 16, 32, 64, 128, 300][below(10)]!;
        const hashSeed = part === 0 ? "0" : text();
        const requests = Array.from({ length: 50 }, () => ({
          tokens: Array.from({ length: below(blockSize * 6) }, () => below([256, 65_536, 200_000, 2 ** 31][below(4)]!)),
          lora: below(3) === 0 ? ([text(), text()] as const) : null,
          salt: below(3) === 0 ? text() : "",
        }));
        const answer = await ask<{ hashes: string[][]; low64: string[][]; first_keys: unknown[] }>("hashes", {
          ...{ algorithm, seed: hashSeed, block_size: blockSize, requests },
        });
        const hasher = new BlockHasher(algorithm, hashSeed);
        for (const [at, { tokens, lora, salt }] of requests.entries()) {
          const key = lora === null ? null : { name: lora[0], path: lora[1] };
          const own: Buffer[] = [];
          for (let block = 0; (block + 1) * blockSize <= tokens.length; block++) {
            const slice = tokens.slice(block * blockSize, (block + 1) * blockSize);
            own.push(hasher.hash(own.at(-1) ?? null, slice, extraKeysOf(key, salt, block === 0)));
          }
          expect(own.map((hash) => hash.toString("hex"))).toEqual(answer.hashes[at]!);
          expect(own.map((hash) => `${low64(hash)}`)).toEqual(answer.low64[at]!);
          expect([eventKeysOf(extraKeysOf(key, salt, true))]).toEqual(answer.first_keys[at] as never);
          hashes += own.length;
        }
      }
    }
    figure("hashes compared", hashes);
  });
});
