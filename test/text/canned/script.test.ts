/** Orders are read as docs/how-to/scripts.md says, errors have their place, and scripts are played. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SAME_STEP } from "../../../src/base/core-limits.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { Finish } from "../../../src/engine/interface/types.ts";
import { JointOutputs, PlayedReceiver, rankedLogprobs, scriptIds } from "../../../src/servers/openai/overrides/play.ts";
import type { Repetition } from "../../../src/servers/openai/request/request.ts";
import {
  BrokenScript,
  parseOrder,
  plainScript,
  readOrder,
  readPlays,
  type Script,
  type Sequence,
  SILENT,
} from "../../../src/text/canned/script.ts";
import { times } from "../../size.ts";
import { anyValue } from "./any-value.ts";

/** Returns the members of a sequence with these IDs per step. */
const stepped = (steps: readonly (readonly number[])[]) => ({
  ids: Uint32Array.from(steps.flatMap((step) => step.map((id, i) => (i < step.length - 1 ? id + SAME_STEP : id)))),
  largest: Math.max(-1, ...steps.flat()),
  steps: steps.length,
});

const FULL = {
  sequences: [{ steps: [[5], [6, 7]], finish: "error", minus_infinity_at: [1] }, { steps: [] }],
  expected: 2,
  burst: true,
  hold_after: 0,
  release_after_s: 1.5,
  engine_dies_at_step: 3,
  logprobs: "ranked",
};
const READ: Script = {
  sequences: [{ ...stepped([[5], [6, 7]]), finish: "error", minusInfinityAt: [1], timesMs: [] }, SILENT],
  burst: true,
  holdAfter: 0,
  releaseAfterS: 1.5,
  diesAtStep: 3,
  ranked: true,
};

test("each kind of order is read", () => {
  const none = { text: "", script: null, releases: false };
  expect(readOrder({})).toEqual({ ...none, kind: "none" });
  expect(readOrder({ release: true })).toEqual({ ...none, kind: "none", releases: true });
  expect(readOrder({ echo: true })).toEqual({ ...none, kind: "echo" });
  expect(readOrder({ echo: false, script: "x" })).toEqual({ ...none, kind: "text", text: "x" });
  expect(parseOrder('{"play":"a"}')).toEqual({ ...none, kind: "play", text: "a" });
  expect(readOrder({ script: FULL })).toEqual({ ...none, kind: "script", script: READ });
  expect(readOrder({ script: [[1], [2, 3]] }).script).toMatchObject({
    ...plainScript([], 0),
    sequences: [stepped([[1], [2, 3]])],
  });
});

test("a file has scripts with names, and a queue of the others", () => {
  const text = JSON.stringify({
    scripts: [{ name: "a", ...FULL }, { sequences: [] }, { sequences: [{ steps: [[1]] }] }],
  });
  const { named, queue } = readPlays(text);
  expect([...named]).toEqual([["a", READ]]);
  expect(queue.map(({ sequences }) => sequences.length)).toEqual([0, 1]);
});

const long = Array.from({ length: 33 }, (_, i) => i);
test.each([
  [() => parseOrder("{"), "not JSON: "],
  [() => readOrder(5), "the order must be an object"],
  [() => readOrder({ script: "x", echo: true }), 'only one of "echo", "script", "play" and "call" can be ordered'],
  [() => readOrder({ skript: "x" }), 'the order: "skript" is not known; it takes echo, script, play, release'],
  [() => readOrder({ play: 5 }), '"play" must be the name of a script'],
  [() => readOrder({ echo: 1 }), "echo must be true or false"],
  [() => readOrder({ script: 5 }), "script must be an object"],
  [() => readOrder({ script: [[1], []] }), "script.sequences[0].steps[1] must be a list of 1 to 32 token ids"],
  [() => readOrder({ script: [long] }), "script.sequences[0].steps[0] must be a list of 1 to 32 token ids"],
  [() => readOrder({ script: [[-1]] }), "script.sequences[0].steps[0] must be a list of 1 to 32 token ids"],
  [() => readOrder({ script: [[2 ** 31]] }), "script.sequences[0].steps[0] must be a list of 1 to 32 token ids"],
  [() => readOrder({ script: { sequences: {} } }), "script.sequences must be a list"],
  [
    () => readOrder({ script: { sequences: [{ steps: [], finish: "x" }] } }),
    "script.sequences[0].finish takes stop, length, error",
  ],
  [
    () => readOrder({ script: { sequences: [{ steps: [], times_ms: [5, 4] }] } }),
    "script.sequences[0].times_ms must be a list of milliseconds up to 86400000, none below the one before it",
  ],
  [
    () => readOrder({ script: { sequences: [{ steps: [], times_ms: [5] }], burst: true } }),
    "script.burst: cannot be set with times_ms",
  ],
  [() => readOrder({ script: { sequences: [], hold_after: -1 } }), "script.hold_after must be a whole number"],
  [
    () => readOrder({ script: { sequences: [], release_after_s: "1" } }),
    "script.release_after_s must be a number of seconds",
  ],
  [() => readOrder({ script: { sequences: [], logprobs: "x" } }), 'script.logprobs takes "ranked"'],
  [() => readPlays("[]"), "the file must be an object"],
  [() => readPlays('{"scripts":5}'), '"scripts" must be a list'],
  [
    () => readPlays('{"scripts":[{"name":"a","sequences":[]},{"name":"a","sequences":[]}]}'),
    'scripts[1].name: "a" is named twice',
  ],
  [() => readPlays('{"scripts":[{"name":"","sequences":[]}]}'), "scripts[0].name must be a text"],
] as const)("%s is refused", (read, wanted) => {
  expect(read).toThrow(BrokenScript);
  expect(read).toThrow(wanted);
});

test("any JSON is read as an order or refused", () => {
  const key = fc.constantFrom(
    "echo",
    "script",
    "play",
    "release",
    "sequences",
    "steps",
    "burst",
    "hold_after",
    "finish",
  );
  const value = anyValue(key);
  fc.assert(
    fc.property(fc.dictionary(key, value), (body) => {
      try {
        expect(["echo", "text", "script", "play", "none"]).toContain(readOrder(body).kind);
      } catch (error) {
        expect(error).toBeInstanceOf(BrokenScript);
      }
    }),
    { numRuns: times(300) },
  );
}, 30_000);

test("IDs for the core mark the step's next ID with a bit, and end with the end of sequence if the limit is larger", () => {
  const sequence: Sequence = { ...SILENT, ...stepped([[5], [6, 7, 8]]) };
  const ids = [5, 6 + SAME_STEP, 7 + SAME_STEP, 8];
  const plain = { maxTokens: 100, ignoreEos: false };
  expect([...scriptIds(sequence, plain, 1)]).toEqual(ids);
  expect([...scriptIds(sequence, { ...plain, ignoreEos: true, maxTokens: 5 }, 1)]).toEqual([...ids, 1]);
  expect([...scriptIds(SILENT, plain, 1)]).toEqual([1]);
});

describe("playing", () => {
  /** Plays a sequence step by step. Returns the outputs of the choice, their times, and the calls of the stage. */
  function play(
    sequence: Partial<Omit<Sequence, "steps">> & { readonly steps?: readonly (readonly number[])[] },
    script: Partial<ReturnType<typeof plainScript>>,
    repetition: Repetition | null = null,
  ) {
    const clock = new VirtualClock();
    const outputs: [number[], Finish | null][] = [];
    const times: number[] = [];
    const calls: string[] = [];
    const steps = sequence.steps ?? [[5], [6], [7]];
    const choice = {
      index: 0,
      finish: null,
      submission: {
        cancel() {},
        release() {},
        cachedTokens: 0,
        finish: (reason: Finish, tokens: number) => void calls.push(`finish ${reason} ${tokens}`),
      },
      onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null) {
        times.push(clock.now());
        outputs.push([[...ids.subarray(at, at + count)], finish]);
      },
    };
    const stage = {
      standStill: (still: boolean) => void calls.push(`still ${still}`),
      releaseIn: (seconds: number) => void calls.push(`release in ${seconds}`),
      die: () => void calls.push("die"),
      later: (us: number, act: () => void) => void clock.at(clock.now() + us, act),
      nowUs: () => clock.now(),
    };
    const whole: Sequence = { ...SILENT, ...sequence, ...stepped(steps) };
    const together = script.burst ? new JointOutputs(1) : null;
    const playing = { script: { ...plainScript([], 0), ...script }, stage, repetition, together, arrivalUs: 0 };
    const player = new PlayedReceiver(choice, whole, playing);
    for (const step of steps) player.onTokens(Int32Array.from([0, ...step]), 1, step.length, null, -1);
    player.onTokens(Int32Array.of(1), 0, 1, Finish.Stop, -1);
    clock.drain();
    return { outputs, calls, times };
  }
  const end = [[1], Finish.Stop] as [number[], Finish];

  test("each step is an output", () => {
    expect(play({}, {})).toMatchObject({ outputs: [[[5], null], [[6], null], [[7], null], end], calls: [] });
  });
  test("a burst is one output", () => {
    expect(play({}, { burst: true }).outputs).toEqual([[[5, 6, 7, 1], Finish.Stop]]);
  });
  test("an error replaces the last step", () => {
    expect(play({ finish: "error" }, {})).toMatchObject({
      outputs: [
        [[5], null],
        [[6], null],
        [[], Finish.Error],
      ],
      calls: [`finish ${Finish.Error} 3`],
    });
  });
  test("at the limit the last step ends the answer", () => {
    expect(play({ finish: "length" }, {})).toMatchObject({
      outputs: [
        [[5], null],
        [[6], null],
        [[7], Finish.Length],
      ],
      calls: [`finish ${Finish.Length} 3`],
    });
    expect(play({ finish: "length" }, { burst: true }).outputs).toEqual([[[5, 6, 7], Finish.Length]]);
  });
  test("outputs wait for their times, and later ones for the last time", () => {
    const { outputs, times } = play({ timesMs: [0, 20, 20] }, {});
    expect(outputs).toEqual([[[5], null], [[6], null], [[7], null], end]);
    expect(times).toEqual([0, 20_000, 20_000, 20_000]);
    expect(play({ timesMs: [5], finish: "error" }, {})).toMatchObject({
      outputs: [
        [[5], null],
        [[6], null],
        [[], Finish.Error],
      ],
      times: [5000, 5000, 5000],
    });
  });
  test("the engine stops, continues or dies", () => {
    expect(play({}, { holdAfter: 2, releaseAfterS: 1.5 }).calls).toEqual(["still true", "release in 1.5"]);
    expect(play({}, { diesAtStep: 2 }).calls).toEqual(["die"]);
  });
  test("repetition ends the answer when the pattern is complete, also inside a step", () => {
    const repetition = { minPattern: 1, maxPattern: 2, minCount: 3, minTokens: 0 };
    expect(play({ steps: [[5], [6, 7, 6, 7, 6, 7, 8], [9]] }, {}, repetition)).toMatchObject({
      outputs: [
        [[5], null],
        [[6, 7, 6, 7, 6, 7], Finish.Repetition],
      ],
      calls: [`finish ${Finish.Repetition} 7`],
    });
    expect(play({ steps: [[5], [5], [5], [5]] }, {}, repetition).outputs.length).toBe(3);
    expect(play({ steps: [[5], [5], [6], [5]] }, {}, repetition).outputs.at(-1)).toEqual(end);
  });
});

test("ranked log probabilities have a rank per position, values exact in 32 bits, and minus infinity as ordered", () => {
  const source = rankedLogprobs(580, [3]);
  expect(source(0, 10, 0, 3)).toEqual({ logprob: -0.5, rank: 1, ids: [10, 17, 24], logprobs: [-0.5, -1, -1.5] });
  expect(source(0, 10, 2, 3)).toEqual({ logprob: -1.75, rank: 3, ids: [576, 3, 10], logprobs: [-0.75, -1.25, -1.75] });
  expect(source(0, 10, 3, 0).logprob).toBe(Number.NEGATIVE_INFINITY);
});
