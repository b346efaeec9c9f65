/** Tests that a good page keeps each law, and that the smallest change to it breaks the law. */
import { expect, test } from "bun:test";
import { checkScrapes, laws } from "../../../src/tools/check/index.ts";
import { type Example, scrapesOf } from "./examples/example.ts";
import { general } from "./examples/general.ts";
import { cross, dynamo, trtllmServe } from "./examples/others.ts";
import { triton, trtllm } from "./examples/triton.ts";
import { vllm } from "./examples/vllm.ts";

const examples: readonly Example[] = [...general, ...vllm, ...trtllm, ...trtllmServe, ...triton, ...dynamo, ...cross];

test.each(examples.map((example, i) => [example.law, i, example] as const))(
  "%s holds for its example and is violated by a change of it (example %i)",
  (law, _, example) => {
    const [from, to] = example.change;
    const last = example.pages.at(-1)!;
    expect(last.split(from)).toHaveLength(2);
    const verdict = (lastPage: string) => {
      const { laws, unreadable } = checkScrapes(scrapesOf(example, lastPage), { ...example.options, only: [law] });
      expect(unreadable).toEqual([]);
      return laws[0]!;
    };
    expect(verdict(last)).toMatchObject({ id: law, verdict: "held" });
    const broken = verdict(last.replace(from, to));
    expect(broken).toMatchObject({ id: law, verdict: "violated" });
    const [first] = broken.violations;
    expect(first!.left.text).not.toBe("");
    // A violation without two values to compare must be one sentence, not "x, must be … y".
    expect(first!.relation).toMatch(/^$|^[=≤≥<>]/);
  },
);

test("every law has an example, and every example belongs to a law", () => {
  const shown = new Set(examples.map(({ law }) => law));
  expect(laws.map(({ id }) => id).filter((id) => !shown.has(id))).toEqual([]);
  expect(shown.size).toBe(laws.length);
});

test("110 laws, each with a unique id, a sentence and a meaning", () => {
  expect(new Set(laws.map(({ id }) => id)).size).toBe(110);
  for (const { sentence, means, needs, tolerance } of laws) {
    expect(sentence.length).toBeGreaterThan(10);
    expect(means).toMatch(/[.)]$/);
    expect(needs.length).toBeGreaterThan(0);
    expect(tolerance).not.toBe("");
  }
});
