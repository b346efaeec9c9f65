/** Tests the arrival processes, and the loop that sends requests on a virtual clock. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { arrivals, type OpenLoop } from "../../../src/tools/load/arrivals.ts";
import type { PendingRequest } from "../../../src/tools/load/clients/client.ts";
import { UsageLevel } from "../../../src/tools/load/requests/body.ts";
import type { RequestRecord, Turn } from "../../../src/tools/load/requests/types.ts";
import { LoadRun, type Phase, type PhaseOutcome } from "../../../src/tools/load/run.ts";
import { Turns } from "../../../src/tools/load/turns.ts";

const OPEN: OpenLoop = {
  pattern: "poisson",
  rate: 100,
  burstiness: 1,
  ramp: null,
  rescale: false,
  count: 20_000,
  durationUs: Number.POSITIVE_INFINITY,
  seed: 1,
};

/** Returns the mean gap in seconds and its coefficient of variation. */
function gapsOf(times: readonly number[]): { mean: number; variation: number } {
  const gaps = times.slice(1).map((at, i) => (at - times[i]!) / 1e6);
  const mean = gaps.reduce((a, b) => a + b, 0) / gaps.length;
  const variance = gaps.reduce((a, b) => a + (b - mean) ** 2, 0) / gaps.length;
  return { mean, variation: Math.sqrt(variance) / mean };
}

describe("processes", () => {
  /** The variation of gamma gaps is one over the square root of the shape. */
  test.each([
    ["poisson", 1, 1],
    ["gamma", 0.25, 2],
    ["gamma", 4, 0.5],
    ["constant", 1, 0],
  ] as const)("%s with burstiness %p keeps the rate, and its gaps vary by %p", (pattern, burstiness, variation) => {
    const found = gapsOf([...arrivals({ ...OPEN, pattern, burstiness })]);
    expect(found.mean).toBeCloseTo(0.01, 3);
    expect(Math.abs(found.variation - variation)).toBeLessThan(0.06);
  });

  test("with an infinite rate all requests arrive at once", () => {
    expect(new Set(arrivals({ ...OPEN, rate: Number.POSITIVE_INFINITY, count: 50 }))).toEqual(new Set([0]));
  });

  test("the same seed gives the same times, another seed others; times begin at 0 and never fall", () => {
    fc.assert(
      fc.property(fc.integer(), fc.double({ min: 0.1, max: 5000, noNaN: true }), (seed, rate) => {
        const loop = { ...OPEN, rate, seed, count: 100 };
        const times = [...arrivals(loop)];
        expect(times).toEqual([...arrivals(loop)]);
        expect(times).not.toEqual([...arrivals({ ...loop, seed: seed + 1 })]);
        expect(times[0]).toBe(0);
        expect(times.every((at, i) => i === 0 || at >= times[i - 1]!)).toBe(true);
      }),
    );
  });

  test("rescaled like vLLM: the last request is at exactly count / rate", () => {
    const times = [...arrivals({ ...OPEN, count: 500, rescale: true })];
    expect(times.at(-1)).toBe(5_000_000);
  });

  test.each([
    ["linear", 10, 90, 50],
    ["exponential", 1, 100, 10],
  ] as const)("%s ramp from %p to %p: at half of the requests the rate is %p", (strategy, startRps, endRps, middle) => {
    const ramp = { strategy, startRps, endRps };
    const times = [...arrivals({ ...OPEN, pattern: "constant", ramp, count: 1001 })];
    const rate = (i: number) => 1e6 / (times[i + 1]! - times[i]!);
    expect(rate(0)).toBeCloseTo(startRps, 0);
    expect(Math.abs(rate(500) / middle - 1)).toBeLessThan(0.01);
    expect(Math.abs(rate(999) / endRps - 1)).toBeLessThan(0.01);
  });

  test("a ramp over a duration, without a number of requests", () => {
    const ramp = { strategy: "linear", startRps: 10, endRps: 100 } as const;
    const loop = { ...OPEN, pattern: "constant", ramp, count: Number.POSITIVE_INFINITY, durationUs: 10e6 } as const;
    // The expected number is the integral of the rate.
    expect(Math.abs([...arrivals(loop)].length / 550 - 1)).toBeLessThan(0.05);
  });
});

const turn = (more: Partial<Turn> = {}): Turn => ({
  conversation: null,
  prompt: "x",
  inputTokens: 1,
  outputTokens: 1,
  arrivalUs: null,
  thinkUs: 0,
  extra: {},
  ...more,
});

interface SentRequest {
  readonly atUs: number;
  readonly order: PendingRequest;
}

/** A simulated server that answers after `takesUs`, which may depend on the request's index. */
function play(
  turns: Iterable<Turn>,
  phase: Partial<Phase>,
  takesUs: (index: number) => number,
  fails: (index: number) => boolean = () => false,
  isQuiet: (index: number) => boolean = () => true,
): { sent: readonly SentRequest[]; outcome: Promise<PhaseOutcome>; prepared: number } {
  const clock = new VirtualClock();
  const sent: SentRequest[] = [];
  const open = new Map<PendingRequest, () => void>();
  let prepared = 0;
  const client = {
    prepare: () => {
      prepared++;
      return { text: "{}", usageLevel: UsageLevel.EachChunk };
    },
    whenQuiet: (work: () => boolean) => {
      while (isQuiet(sent.length - 1) && work());
    },
    countFrom: () => {},
    cutAll: () => {
      for (const end of [...open.values()]) end();
    },
    send: (order: PendingRequest, ended: (record: RequestRecord, text: string) => void) => {
      sent.push({ atUs: clock.now(), order });
      const end = () => {
        if (!open.delete(order)) return;
        const failure = fails(order.index) ? { kind: "status" as const, message: "no" } : null;
        ended(
          {
            index: order.index,
            failure,
            disturbed: null,
            chunkUs: new Float64Array(1),
            chunkTokens: new Int32Array(1),
          } as RequestRecord,
          `answer ${order.index}`,
        );
      };
      open.set(order, end);
      clock.at(clock.now() + takesUs(order.index), end);
    },
  };
  const options = { clock, client, seed: 0, cancelShare: 0, cancelAfterUs: 0, slowShare: 0, slowPauseUs: 0 };
  const outcome = new LoadRun(options).phase({
    turns: new Turns(turns, "test", false),
    prefix: "t",
    loop: { kind: "closed" },
    concurrency: Number.POSITIVE_INFINITY,
    count: Number.POSITIVE_INFINITY,
    durationUs: Number.POSITIVE_INFINITY,
    graceUs: 0,
    ...phase,
  });
  clock.drain();
  return { sent, outcome, prepared };
}

const many = (count: number, more: Partial<Turn> = {}) => Array.from({ length: count }, () => turn(more));
const times = (sent: readonly SentRequest[]) => sent.map(({ atUs }) => atUs);
const intended = (sent: readonly SentRequest[]) => sent.map(({ order }) => order.intendedUs);

describe("loops", () => {
  test("closed: a request is sent when a slot is free, which is its intended time", () => {
    const { sent } = play(many(6), { concurrency: 2 }, (i) => (i % 2 === 0 ? 100 : 300));
    expect(times(sent)).toEqual([0, 0, 100, 200, 300, 400]);
    expect(intended(sent)).toEqual(times(sent));
  });

  test("open: intended times follow the schedule, even if a concurrency limit delays requests", () => {
    const { sent } = play(
      many(5),
      { loop: { kind: "open", arrivals: [0, 10, 20, 30, 40].values() }, concurrency: 2 },
      () => 100,
    );
    expect(intended(sent)).toEqual([0, 10, 20, 30, 40]);
    expect(times(sent)).toEqual([0, 10, 100, 110, 200]);
  });

  test("bodies are prepared in quiet moments, even after all prepared ones were used", () => {
    const cut = (isQuiet: (index: number) => boolean) =>
      play(many(100), { concurrency: 1, count: 61 }, () => 100, undefined, isQuiet);
    const { sent, prepared } = cut(() => false);
    expect([sent.length, prepared]).toEqual([61, 61]);
    expect(sent.every(({ order }) => order.prepared !== null)).toBe(true);
    const ends = play(
      many(100),
      { concurrency: 1, durationUs: 6050 },
      () => 100,
      undefined,
      (i) => i === 60,
    );
    expect([ends.sent.length, ends.prepared]).toEqual([61, 61 + 32]);
  });

  test("an error of the dataset while bodies are made ahead ends the run only at that turn", async () => {
    function* turns() {
      yield* many(50);
      throw new Error("line 51");
    }
    const arrivals = many(60).map((_, i) => 10 * i);
    const { sent, outcome } = play(turns(), { loop: { kind: "open", arrivals: arrivals.values() } }, () => 100);
    await expect(outcome).rejects.toThrow("line 51");
    expect(sent.length).toBe(50);
  });

  test("a dataset's own times can be replayed twice as fast", () => {
    const turns = [0, 100, 100, 250].map((arrivalUs) => turn({ arrivalUs }));
    const { sent } = play(turns, { loop: { kind: "schedule", speedup: 2 } }, () => 1000);
    expect(times(sent)).toEqual([0, 50, 50, 125]);
  });

  test("the run ends after its count, or after its duration and grace period", () => {
    expect(play(many(9), { concurrency: 1, count: 4 }, () => 10).sent).toHaveLength(4);
    const { sent } = play(many(99), { concurrency: 1, durationUs: 100, graceUs: 30 }, () => 40);
    expect(times(sent)).toEqual([0, 40, 80]);
  });

  test("turns of a conversation wait for the answer and the think time, and carry earlier turns", () => {
    const talk = (conversation: string, thinkUs: number) => turn({ conversation, thinkUs, prompt: conversation });
    const turns = [talk("a", 0), talk("a", 500), talk("a", 50), talk("b", 0)];
    const { sent } = play(turns, { concurrency: 1 }, () => 100);
    // While the user of conversation a thinks, b has the slot.
    expect(sent.map(({ atUs, order }) => [atUs, order.turn.prompt])).toEqual([
      [0, "a"],
      [100, "b"],
      [600, "a"],
      [750, "a"],
    ]);
    expect(intended(sent)).toEqual(times(sent));
    expect(sent[2]!.order.history).toEqual([
      { role: "user", content: "a" },
      { role: "assistant", content: "answer 0" },
    ]);
  });

  test("without room for waiting turns, ready turns are sent, and finally all", () => {
    const talk = (conversation: string) => turn({ conversation, thinkUs: 500 });
    const all = ["a", "b", "a", "b", "a", "b", "a", "b"].map(talk);
    const turns = new Turns(all, "t", false, 2);
    const { sent } = play([], { turns, concurrency: 4 }, () => 10);
    expect(sent.map(({ order }) => order.turn.conversation)).toEqual(["a", "b", "a", "b", "a", "b", "a", "b"]);
    expect(sent.at(-1)!.atUs).toBe(3 * 510);
  });

  test("conversations of token ids are refused, because text cannot be appended to them", () => {
    const turns = new Turns([turn({ conversation: "a", prompt: [1, 2] })], "file", false);
    expect(() => turns.next()).toThrow("file: turns of a conversation cannot follow each other as token ids");
  });

  test("a failed turn ends its conversation, and the others continue", () => {
    const turns = [turn({ conversation: "a" }), turn({ conversation: "a" }), turn({ conversation: "b" }), turn()];
    const { sent } = play(
      turns,
      { concurrency: 1 },
      () => 10,
      (index) => index === 0,
    );
    expect(sent.map(({ order }) => order.turn.conversation)).toEqual(["a", "b", null]);
  });

  test("the concurrency limit holds, and every turn is sent once, not before its time", () => {
    const kinds = fc.record({
      conversation: fc.option(fc.constantFrom("a", "b", "c")),
      thinkUs: fc.nat(300),
      arrivalUs: fc.nat(2000),
    });
    fc.assert(
      fc.property(
        fc.array(kinds, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        fc.array(fc.nat(400), { minLength: 1 }),
        (some, concurrency, scheduled, durations) => {
          const sorted = some.toSorted((x, y) => x.arrivalUs - y.arrivalUs).map((request) => turn(request));
          const takes = (index: number) => durations[index % durations.length]!;
          const loop = scheduled ? ({ kind: "schedule", speedup: 1 } as const) : ({ kind: "closed" } as const);
          const { sent } = play(sorted, { loop, concurrency }, takes);
          expect(new Set(sent.map(({ order }) => order.turn)).size).toBe(sorted.length);
          for (const { atUs, order } of sent) {
            expect(atUs).toBeGreaterThanOrEqual(order.intendedUs);
            if (scheduled) expect(atUs).toBeGreaterThanOrEqual(order.turn.arrivalUs!);
            const open = sent.filter(
              (other) =>
                other.atUs <= atUs && other.atUs + takes(other.order.index) > atUs && takes(other.order.index) > 0,
            );
            expect(open.length).toBeLessThanOrEqual(concurrency);
          }
        },
      ),
    );
  });
});
