/**
 * Checks that the three roles survive hours of moderate load: no exit, no violated law, and level memory and descriptors.
 * `npx bun run test soak --minutes N` runs the whole. The sample lasts seconds and judges everything except memory.
 */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { figure, seed, sized } from "../size.ts";
import { levelOf, type Sample } from "./level.ts";
import { type RoleOutcome, soak } from "./soak.ts";

const minutes = Number(process.env.TEST_MINUTES ?? sized("soak", { sample: 0.1, whole: 120 }));
const isWhole = sized("soak", { sample: false, whole: true });
const GROWTH_MB = 5;
/** Share of requests that may be sent again because their idle connection was just closing. */
const RESENT_SHARE = 0.0005;
/**
 * Share of scrapes that may get no answer within 10 s. The machine of a run may stop all its programs that long. It happened
 * twice in 20,000 scrapes while other programs had real-time priority.
 */
const LOST_SCRAPES_SHARE = 0.0005;
/** Limit of each server's CPU use, in cores. */
const CORES = 1 / 3;

setDefaultTimeout((minutes + 10) * 60_000);

let outcomes: RoleOutcome[] = [];

beforeAll(async () => {
  outcomes = await soak({
    seed,
    minutes,
    warmUpS: isWhole ? 60 : 2,
    perSecond: 25,
    sampleEveryS: isWhole ? 5 : 1,
    keepsConnections: isWhole,
    say: isWhole ? console.log : undefined,
  });
  for (const { role, samples, descriptors, cores, traffic } of outcomes) {
    const level = isWhole ? levelOf(samples, minutes) : null;
    figure(role, {
      ...level,
      descriptors,
      cores,
      sent: traffic.sent,
      leftOut: traffic.leftOut,
      resent: traffic.resent,
      wrong: traffic.wrong,
    });
  }
});

test("no server exits by itself, and SIGTERM ends each with code 0", () => {
  expect(outcomes.map(({ role, ended, exitCode, output }) => ({ role, ended, exitCode, output }))).toEqual(
    (["vllm", "triton", "trtllm-serve"] as const).map((role) => ({ role, ended: null, exitCode: 0, output: "" })),
  );
});

test("every answer without an ordered fault is right", () => {
  expect(outcomes.map(({ traffic: { wrongCount, wrong } }) => ({ wrongCount, wrong }))).toEqual(
    outcomes.map(() => ({ wrongCount: 0, wrong: [] })),
  );
  for (const { traffic } of outcomes) {
    expect(traffic.sent).toBeGreaterThan(minutes * 60);
    expect(traffic.resent).toBeLessThanOrEqual(traffic.sent * RESENT_SHARE);
  }
});

test("no law of the metrics is violated, and nearly all scrapes are answered", () => {
  for (const { check } of outcomes) {
    const lost = check.output.split("no complete answer within").length - 1;
    expect(check).toEqual({ code: lost > 0 ? 2 : 0, output: expect.stringContaining(" 0 violated") });
    expect(lost).toBeLessThanOrEqual(minutes * 60 * LOST_SCRAPES_SHARE);
  }
});

test("the server has no more descriptors at the end than at the start", () => {
  for (const { role, descriptors } of outcomes) {
    const [start, end] = descriptors;
    expect({ role, more: Math.max(0, end - start) }).toEqual({ role, more: 0 });
  }
});

test.skipIf(!isWhole)("memory levels off, and no server uses more than a third of a core", () => {
  for (const { role, samples, cores } of outcomes) {
    const { growthMb } = levelOf(samples, minutes);
    const isLevel = growthMb <= GROWTH_MB;
    expect({ role, growthMb, isLevel, isModerate: cores <= CORES }).toMatchObject({ isLevel: true, isModerate: true });
  }
});

test("the verdict on memory finds steady growth under noise, and reports none for a level run", () => {
  const noisy = (perMinute: number, noise: readonly number[]): Sample[] =>
    noise.map((mb, at) => ({ minute: at / 12, residentMb: 200 + (perMinute * at) / 12 + mb, descriptors: 20 }));
  const noise = fc.array(fc.double({ min: -3, max: 3, noNaN: true }), { minLength: 1440, maxLength: 1440 });
  fc.assert(
    fc.property(noise, fc.double({ min: 0.3, max: 5, noNaN: true }), (values, perMinute) => {
      expect(levelOf(noisy(0, values), 120).growthMb).toBeLessThanOrEqual(GROWTH_MB);
      expect(levelOf(noisy(perMinute, values), 120).growthMb).toBeGreaterThan(GROWTH_MB);
    }),
    { numRuns: 20 },
  );
});
