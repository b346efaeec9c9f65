/**
 * Checks that a request gets its own answer, independent of other requests: default text, scripts, stop ids, min_tokens and end
 * of sequence.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { SAME_STEP, STEP_IDS_MOST } from "../../src/base/core-limits.ts";
import { Finish } from "../../src/engine/interface/types.ts";
import { nextToken } from "../../src/text/answers/answers.ts";
import { times } from "../size.ts";
import { anyConfig, anyRequest, run } from "./random-requests.ts";
import { answers, configOf, debug, EOS, promptOf, release, World } from "./simulated-engine.ts";

setDefaultTimeout(60_000);

/** Returns the ids and the finish reason of one request on an idle engine. */
function alone(changes: Parameters<World["submit"]>[0], module = debug) {
  const world = new World(configOf({ maxModelLen: 4096, numGpuBlocks: 300 }), { module });
  const receiver = world.submit(changes)!;
  world.clock.drain();
  const { ids, finish, events } = receiver;
  return { ids, finish, stopTokenId: events.at(-1)!.stopTokenId };
}

describe("default text", () => {
  test.each([
    ["release", release],
    ["debug", debug],
  ] as const)("equals the second implementation in TypeScript, %s core", (_, module) => {
    const seeds = fc.oneof(fc.integer(), fc.constantFrom(0, -1, 2 ** 31 - 1, -(2 ** 31)), fc.nat(2 ** 32 - 1));
    const property = fc.property(seeds, fc.integer({ min: 1, max: 300 }), (seed, maxTokens) => {
      const wanted = Array.from({ length: maxTokens }, (__, position) => nextToken(answers, seed, position));
      expect(alone({ seed, maxTokens }, module)).toEqual({ ids: wanted, finish: Finish.Length, stopTokenId: -1 });
    });
    fc.assert(property, { numRuns: times(60) });
  });

  test("is the same with and without prefix caching, in other pools and modes", () => {
    const requests = fc.array(anyRequest, { minLength: 4, maxLength: 25, size: "max" });
    const property = fc.property(anyConfig, anyConfig, requests, (config, other, list) => {
      const [first, second] = [config, { ...other, enablePrefixCaching: !config.enablePrefixCaching }].map((config) => {
        const world = new World(config);
        run(world, list);
        return world.receivers;
      });
      first!.forEach((receiver, i) => {
        const also = second![i]!;
        const length = Math.min(receiver.ids.length, also.ids.length);
        expect(receiver.ids.slice(0, length)).toEqual(also.ids.slice(0, length));
        // Either the client disconnected at some time, or the whole answer came.
        if (!receiver.ended && !also.ended)
          expect([receiver.ids.length, receiver.finish]).toEqual([length, also.finish]);
      });
    });
    fc.assert(property, { numRuns: times(40) });
  });
});

describe("ends", () => {
  const seed = 11;
  const text = Array.from({ length: 200 }, (_, position) => nextToken(answers, seed, position));

  test("the planned end-of-sequence id is the last id, with reason stop", () => {
    const wanted = { ids: [...text.slice(0, 4), EOS], finish: Finish.Stop, stopTokenId: -1 };
    expect(alone({ seed, plannedTokens: 5, maxTokens: 9 })).toEqual(wanted);
    expect(alone({ seed, plannedTokens: 5, maxTokens: 5 })).toEqual(wanted);
  });

  test("a limit below the planned end gives reason length", () => {
    const wanted = { ids: text.slice(0, 4), finish: Finish.Length, stopTokenId: -1 };
    expect(alone({ seed, plannedTokens: 5, maxTokens: 4 })).toEqual(wanted);
  });

  test("ignore_eos prevents the end-of-sequence id", () => {
    const wanted = { ids: text.slice(0, 9), finish: Finish.Length, stopTokenId: -1 };
    expect(alone({ seed, plannedTokens: 5, maxTokens: 9, ignoreEos: true })).toEqual(wanted);
  });

  test("min_tokens moves the end of sequence after itself", () => {
    const { ids, finish } = alone({ seed, plannedTokens: 2, maxTokens: 40, minTokens: 20 });
    expect([ids.length, finish]).toEqual([21, Finish.Stop]);
    expect(ids.indexOf(EOS)).toBe(20);
  });

  test("the first stop id ends the answer and is reported", () => {
    const at = text.findIndex((id, i) => i > 10 && text.indexOf(id) === i);
    const wanted = { ids: text.slice(0, at + 1), finish: Finish.Stop, stopTokenId: text[at]! };
    expect(alone({ seed, maxTokens: 100, stopTokenIds: [999_999, text[at]!] })).toEqual(wanted);
  });

  test("there may be more stop ids than a page of the arena holds", () => {
    const stopTokenIds = Array.from({ length: 1000 }, (_, i) => 900_000 + i);
    const at = text.findIndex((id, i) => i > 5 && text.indexOf(id) === i);
    expect(alone({ seed, maxTokens: 100, stopTokenIds }).ids).toEqual(text.slice(0, 100));
    expect(alone({ seed, maxTokens: 100, stopTokenIds: [...stopTokenIds, text[at]!] }).ids.length).toBe(at + 1);
  });

  test("no stop id comes before min_tokens, and one may after it", () => {
    const property = fc.property(
      fc.integer(),
      fc.nat(60),
      fc.uniqueArray(fc.nat(answers.ids.length - 1), { maxLength: 40 }),
      (anySeed, minTokens, picks) => {
        const stopTokenIds = picks.map((pick) => answers.ids[pick]!);
        const { ids, finish, stopTokenId } = alone({ seed: anySeed, maxTokens: 80, minTokens, stopTokenIds });
        expect(ids.slice(0, minTokens).some((id) => stopTokenIds.includes(id))).toBe(false);
        const first = ids.findIndex((id) => stopTokenIds.includes(id));
        if (finish === Finish.Stop) expect([first, stopTokenId]).toEqual([ids.length - 1, ids.at(-1)!]);
        else expect([first, ids.length, stopTokenId]).toEqual([-1, 80, -1]);
      },
    );
    fc.assert(property, { numRuns: times(60) });
  });

  test("min_tokens holds even if every id of the tables is a stop id", () => {
    const { ids, finish } = alone({ maxTokens: 30, minTokens: 10, stopTokenIds: [...new Set(answers.ids)] });
    expect([ids.length, finish]).toEqual([11, Finish.Stop]);
  });

  test("the end of the context gives reason length", () => {
    const { ids, finish } = alone({ promptIds: promptOf(4090), maxTokens: 1000 });
    expect([ids.length, finish]).toEqual([6, Finish.Length]);
  });
});

describe("scripts", () => {
  const scriptOf = (length: number) => Uint32Array.from({ length }, (_, i) => 300_000 + i);

  test("give exactly their ids, and then the end of sequence", () => {
    // Lengths around the pages in which ids are fed to the core.
    for (const length of [1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 160, 1000]) {
      const script = scriptOf(length);
      expect(alone({ script, maxTokens: 2000 })).toEqual({
        ids: [...script, EOS],
        finish: Finish.Stop,
        stopTokenId: -1,
      });
      expect(alone({ script, maxTokens: 2000, ignoreEos: true })).toEqual({
        ids: [...script],
        finish: Finish.Length,
        stopTokenId: -1,
      });
      expect(alone({ script, maxTokens: length }).ids).toEqual([...script]);
    }
  });

  test("survive preemption of many requests in any mode", () => {
    const property = fc.property(
      fc.boolean(),
      fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 4, maxLength: 8 }),
      (asyncScheduling, lengths) => {
        const world = new World(configOf({ asyncScheduling, numGpuBlocks: 33, maxModelLen: 256 }));
        const scripts = lengths.map((length) => scriptOf(length));
        const all = scripts.map((script, i) => world.submit({ script, maxTokens: 400, promptIds: promptOf(40, i) })!);
        world.clock.drain();
        const wanted = scripts.map((script) => [...script, EOS].slice(0, 256 - 40));
        expect(all.map(({ ids }) => ids)).toEqual(wanted);
      },
    );
    fc.assert(property, { numRuns: times(30) });
  });

  test("with several ids per step give the same ids in that many steps, in any mode, with any end", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: STEP_IDS_MOST }), { minLength: 1, maxLength: 40 });
    const property = fc.property(fc.boolean(), sizes, fc.integer({ min: 1, max: 900 }), (async, list, maxTokens) => {
      const world = new World(configOf({ asyncScheduling: async, maxModelLen: 4096, numGpuBlocks: 300 }));
      const ids = scriptOf(list.reduce((sum, size) => sum + size, 0));
      const script = ids.slice();
      let at = 0;
      for (const size of list) {
        for (let i = at; i < at + size - 1; i++) script[i]! += SAME_STEP;
        at += size;
      }
      const receiver = world.submit({ script, maxTokens })!;
      world.clock.drain();
      const all = [...ids, EOS].slice(0, maxTokens);
      const steps: number[] = [];
      for (let left = all.length, i = 0; left > 0; left -= steps[i++]!) steps.push(Math.min(left, list[i] ?? 1));
      expect(receiver.ids).toEqual(all);
      expect(receiver.events.map(({ ids }) => ids.length)).toEqual(steps);
      expect(world.engine.snapshot().generationTokens).toBe(all.length);
      expect(world.engine.snapshot().blocksUsed).toBe(0);
    });
    fc.assert(property, { numRuns: times(40) });
  });

  test("an empty script is only the end of sequence", () => {
    expect(alone({ script: scriptOf(0) })).toEqual({ ids: [EOS], finish: Finish.Stop, stopTokenId: -1 });
  });

  test("a script shorter than min_tokens comes completely and then ends", () => {
    const { ids, finish } = alone({ script: scriptOf(5), maxTokens: 40, minTokens: 20 });
    expect([ids, finish]).toEqual([[...scriptOf(5), EOS], Finish.Stop]);
  });

  test("an empty script with ignore_eos ends, too", () => {
    expect(alone({ script: scriptOf(0), ignoreEos: true }).finish).not.toBeNull();
  });
});
