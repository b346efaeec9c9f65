/**
 * Tests the library: a test's own client with disturbed streams in ten lines, in Bun and in Node, and arbitrary fault plans
 * for property tests.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import fc from "fast-check";
import { FAULTS, faultPlans, type StressedClient, stress } from "../../../src/embed/testing.ts";
import { parsePlan } from "../../../src/faults/parse.ts";
import { eventually } from "../../server.ts";
import { sized } from "../../size.ts";

setDefaultTimeout(120_000);

/** A client that is correct, except that it skips text before the first `data:`. */
const client: StressedClient = async (baseUrl, signal) => {
  const body = JSON.stringify({ model: "m", stream: true, prompt: "x" });
  const response = await fetch(`${baseUrl}/completions`, { method: "POST", body, signal });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const events = Buffer.from(await response.arrayBuffer())
    .toString()
    .split(/\n\n/);
  const chunks = events.filter((event) => event.startsWith("data: {")).map((event) => JSON.parse(event.slice(6)));
  return { text: chunks.map(({ choices }) => choices?.[0]?.text ?? "").join("") };
};

test("stress(): verdicts in the order of the cases, a client that never ends hangs, wrong options and reports are a TypeError", async () => {
  const results = await stress(client, { faults: ["B4", "B8", "A4"], seed: 3 });
  expect(results.map(({ plan, verdict, isRed }) => [plan, verdict, isRed]).slice(0, 2)).toEqual([
    ["B4#seed=3", "ok", false],
    ["B8#seed=3", "text-lost", true],
  ]);
  expect(results.length).toBe(7);
  expect(results.slice(2).every(({ verdict }) => verdict === "ok")).toBe(true);
  const [hung] = await stress(
    async (url, signal) => {
      await client(url, signal);
      return new Promise(() => {});
    },
    { faults: ["B4"], caseMs: 300 },
  );
  expect(hung!.verdict).toBe("hang");
  expect(stress(client, { faults: ["X9"] })).rejects.toThrow("--faults: takes ids of docs/reference/faults.md");
  expect(stress(async () => ({ said: "" }) as never, { faults: ["B4"] })).rejects.toThrow("must have this shape");
});

test("the process that serves the cases ends with its parent", async () => {
  const code = `
    const { stress } = await import("${new URL("../../../src/embed/testing.ts", import.meta.url)}");
    await stress(async (url) => { console.log(new URL(url).port); return new Promise(() => {}); }, { faults: ["B4"] });`;
  const parent = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe", stderr: "inherit" });
  const reader = parent.stdout.getReader();
  const port = Number(Buffer.from((await reader.read()).value!).toString());
  expect((await fetch(`http://127.0.0.1:${port}/cases`)).status).toBe(200);
  parent.kill("SIGKILL");
  await parent.exited;
  await eventually(() =>
    fetch(`http://127.0.0.1:${port}/cases`).then(
      () => false,
      () => true,
    ),
  );
});

test("faultPlans: a failure that one fault causes shrinks to that fault", () => {
  for (const id of ["B8", "S2", "E7"]) {
    const broken = fc.property(faultPlans({ maxFaults: 6 }), (line) => {
      expect(parsePlan(line).faults.map(({ row }) => row.id)).not.toContain(id);
    });
    const { counterexample, numShrinks } = fc.check(broken, { seed: 3, numRuns: 1000 });
    expect(numShrinks).toBeGreaterThan(0);
    expect(parsePlan(counterexample![0]).faults.map(({ row }) => row.id)).toEqual([id]);
  }
});

test("faultPlans: each is a valid plan with the requested ids; FAULTS has all ids", () => {
  expect(Object.keys(FAULTS).length).toBe(82);
  expect(FAULTS.B8!.oracle).toBe("the mark is ignored");
  const runs = sized("stress", { sample: 100, whole: 5000 });
  fc.assert(
    fc.property(faultPlans(), (line) => {
      expect(parsePlan(line).faults.length).toBeGreaterThan(0);
    }),
    { numRuns: runs },
  );
  fc.assert(
    fc.property(faultPlans({ faults: ["B8", "E7"], maxFaults: 2, maxTimeUs: 100 }), (line) => {
      for (const { row, values } of parsePlan(line).faults) {
        expect(["B8", "E7"]).toContain(row.id);
        if (row.id === "E7") expect(values.after).toBeLessThanOrEqual(100);
      }
    }),
    { numRuns: runs },
  );
  expect(() => faultPlans({ faults: ["C1"] })).toThrow(TypeError);
  // Shrunk to one fault at the simplest position.
  const found = fc.check(
    fc.property(faultPlans({ maxFaults: 6 }), (line) => !line.includes("S2")),
    { numRuns: 2000, seed: 1 },
  );
  expect(found.counterexample?.[0]).toMatch(/^S2@head#seed=0$/);
});

const packed = new URL("../../../build/npm/llm-understudy/dist/testing.js", import.meta.url);
test.skipIf(!existsSync(packed))("in Node, from the package", async () => {
  const code = `
    import { stress } from ${JSON.stringify(packed.href)};
    const results = await stress(async (url, signal) => {
      const body = JSON.stringify({ model: "m", stream: true, prompt: "x" });
      const text = await (await fetch(url + "/completions", { method: "POST", body, signal })).text();
      const chunks = text.split("\\n\\n").filter((one) => one.startsWith("data: {")).map((one) => JSON.parse(one.slice(6)));
      return { text: chunks.map(({ choices }) => choices[0]?.text ?? "").join("") };
    }, { faults: ["B4", "S3"] });
    console.log(results.map(({ verdict }) => verdict).join());`;
  const node = Bun.spawn(["node", "--input-type=module", "-e", code], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([node.stdout.text(), node.stderr.text()]);
  expect([out.trim(), err]).toEqual(["ok,text-lost", ""]);
});
