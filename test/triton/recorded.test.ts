/**
 * Compares our answers with recordings of a real Triton, step by step. The whole run plays all recordings and checks their times.
 * The sample plays a few that do not wait, and tolerates late answers.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { drawn, figure, seed, sized } from "../size.ts";
import { differences } from "./golden/compare.ts";
import { mutated } from "./golden/mutate.ts";
import { type PlayOptions, playAll, type Verdict } from "./golden/play.ts";
import { readRecordings, type Scenario } from "./golden/recordings.ts";

const { scenarios, models } = readRecordings(new URL("recorded", import.meta.url).pathname);

/** Cases that are not as recorded, with reasons. A case that starts to work must leave the list. */
const NOT_YET = JSON.parse(readFileSync(new URL("not-yet.json", import.meta.url), "utf8")) as {
  readonly reason: string;
  readonly waiting: readonly string[];
  /** True if the cases may also be as recorded. */
  readonly maybe?: boolean;
}[];
const waiting = new Set(NOT_YET.flatMap((one) => one.waiting));
const isWaiting = (name: string) => waiting.has(name);

/** Matches scenarios that take long: signals, loads and idle times. */
const SLOW = /exiting|explicit|repository|summary_|pending_|cache_gauges|interval_|priority|unload|canceled|queue_|timeout|dynamic_no/;
const quick = scenarios.filter(({ name }) => !SLOW.test(name));
const played = sized("triton", {
  sample: [...quick.filter(({ name }) => /http\/(infer|metadata)$|grpc\/(infer|stream)$/.test(name)), ...drawn(quick, 6, seed)],
  whole: scenarios,
});
const TIMEOUT_MS = 900_000;

const verdictsOf = (all: readonly Scenario[], options: PlayOptions): Promise<Verdict[]> =>
  Array.fromAsync(playAll([...new Set(all)], models, () => {}, options));

test(
  "all recordings match, except the listed cases",
  async () => {
    const verdicts = await verdictsOf(played, { late: sized("triton", { sample: true, whole: false }) });
    expect(verdicts.filter(({ name, wrong }) => wrong !== null && !isWaiting(name))).toEqual([]);
    const certain = NOT_YET.flatMap((one) => (one.maybe ? [] : one.waiting));
    const works = verdicts.filter(({ name, wrong }) => wrong === null && certain.includes(name));
    expect(works.map(({ name }) => name)).toEqual([]);
    expect(verdicts.length).toBeGreaterThan(100);
    figure("played", verdicts.length);
    figure("asRecorded", verdicts.filter(({ wrong }) => wrong === null).length);
  },
  TIMEOUT_MS,
);

test(
  "a wrong expectation is noticed",
  async () => {
    const names = sized("triton", { sample: ["http/restricted", "grpc/restricted"], whole: ["http/restricted", "http/binary", "http/generate", "grpc/infer"] });
    const changed = scenarios.filter(({ name }) => names.includes(name)).map((one) => mutated(one, seed));
    const verdicts = await verdictsOf(changed, { once: true });
    expect(verdicts.filter(({ wrong }) => wrong === null)).toEqual([]);
    expect(verdicts.length).toBeGreaterThan(10);
  },
  TIMEOUT_MS,
);

test("with tolerance for lateness, a call that cancels late may have more answers, but no other differences", () => {
  const step = {
    grpc: { method: "ModelStreamInfer", requests: [], cancel_after_ms: 400 },
    expect: { responses: ["a", "b"], code: "CANCELLED" },
  };
  const found = (responses: readonly string[], late: boolean) =>
    differences(step, { responses, code: "CANCELLED" }, late);
  expect(found(["a", "b", "c"], true)).toEqual([]);
  expect(found(["a", "b", "c"], false)).toEqual([".responses: 2 wanted, 3 got"]);
  expect(found(["a"], true)).toEqual([".responses: 2 wanted, 1 got"]);
  expect(found(["a", "c", "c"], true)).toEqual(['.responses[1]: wanted "b", got "c"']);
});
