/**
 * Tests `--base` of a bench: it must tell a change from the noise between two runs of the same revision, and read results of
 * earlier revisions.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { compareRounds, passedOn, type Round } from "../../bench/lib/compared.ts";
import { inTurns } from "../../bench/lib/servers.ts";
import { costs } from "../../bench/stream/costs.ts";

type RoundTimes = readonly [base: number, again: number, tree: number];
const rounds = (...of: readonly RoundTimes[]): Round[] =>
  of.map(([base, again, tree]) => ({ base: { us: base }, again: { us: again }, tree: { us: tree } }));
const verdict = (...of: readonly RoundTimes[]) => compareRounds(rounds(...of))[0]!.verdict;

test("a difference counts if it is larger than the difference between two runs of the base", () => {
  expect(verdict([100, 105, 109], [100, 96, 108], [100, 102, 112])).toBe("worse");
  expect(verdict([100, 105, 93], [100, 96, 91], [100, 102, 92])).toBe("better");
  expect(verdict([100, 125, 109], [100, 96, 108], [100, 102, 112])).toBe("as before");
  expect(verdict([100, 80, 93], [100, 96, 91], [100, 102, 92])).toBe("as before");
});

test("the ratios are those of the two runs of the base, the largest of them in either direction, and the tree to both", () => {
  const [comparison] = compareRounds(rounds([100, 121, 110], [100, 80, 100], [50, 50, 40]));
  expect(comparison).toMatchObject({ name: "us", rounds: 3, baseToBase: 1, apart: 1.25, verdict: "as before" });
  expect(comparison!.treeToBase).toBeCloseTo(1, 9);
});

test("a host that changes its speed between rounds changes no ratio", () => {
  const slower = rounds([100, 101, 120], [300, 303, 360], [50, 49.5, 60]);
  expect(compareRounds(slower)[0]).toMatchObject({ verdict: "worse" });
  expect(compareRounds(slower)[0]!.treeToBase).toBeCloseTo(1.2, 1);
});

test("two rounds give no verdict", () => {
  expect(verdict([100, 100, 200], [100, 100, 200])).toBe("too few rounds");
});

test("figures that a run lacks, and figures without a ratio, are not measured", () => {
  const whole = { base: { us: 1, none: 0 }, again: { us: 1, none: 0 }, tree: { us: 1, none: 0, more: 3 } };
  const verdicts = compareRounds([whole, whole, whole, { ...whole, base: {} }]);
  expect(verdicts.map(({ name, rounds, verdict }) => [name, rounds, verdict])).toEqual([
    ["us", 3, "as before"],
    ["none", 0, "not measured"],
    ["more", 0, "not measured"],
  ]);
});

test("each contender takes each position once in three rounds, and warm-ups do not count", async () => {
  const order: string[] = [];
  const noted = (name: string) => () => order.push(name);
  const contenders = { base: noted("base"), again: noted("again"), tree: noted("tree") };
  const { base, tree } = await inTurns("test", 3, contenders, 1);
  expect(order.join(" ")).toBe("base again tree again tree base tree base again base again tree");
  expect([base, tree]).toEqual([
    [6, 8, 10],
    [5, 7, 12],
  ]);
});

test("runs get the command line without the options of the comparison", () => {
  const words = "--quick --base HEAD~3 --only cpu --pairs 7 --no-save --realtime".split(" ");
  expect(passedOn(words)).toEqual(["--quick", "--only", "cpu", "--realtime"]);
});

test("costs of the stream bench are read from every line that any revision wrote", () => {
  const lines = readFileSync(new URL("../../bench/results/stream.jsonl", import.meta.url), "utf8")
    .trim()
    .split("\n");
  const read = lines.map((line) => [JSON.parse(line), costs(JSON.parse(line))] as const);
  expect(read.length).toBeGreaterThan(5);
  for (const [{ cpu, sends, paced }, of] of read) {
    const measured = (paced ?? []).filter(({ isVoid }: { isVoid: boolean }) => !isVoid);
    const some = cpu?.pairs > 0 || sends?.strace === true || measured.length > 0;
    expect(Object.keys(of).length > 0).toBe(some);
    expect(Object.values(of).filter((value) => typeof value !== "number")).toEqual([]);
  }
  expect(read.some(([, of]) => of["CPU per token, us"]! > 0)).toBe(true);
  expect(read.some(([, of]) => of["1000 streams: late, p99, us"]! > 0)).toBe(true);
});
