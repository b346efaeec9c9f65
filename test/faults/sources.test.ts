/** Checks the sources of plans: requests, fixtures, rules of a file that changes, and chance from the seed. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, serve } from "../server.ts";

setDefaultTimeout(60_000);

const FLAGS = ["--timing", "none", "--served-model-name", "m", "--disable-uvicorn-access-log"];
const folder = mkdtempSync(join(tmpdir(), "understudy-faults-"));
const rulesFile = join(folder, "faults.yaml");
const RULES = `
faults:
  - match: { user: { contains: zero } }
    plan: B1
    share: 0
  - match: { user: { contains: half } }
    plan: B4@e1
    share: 0.5
    seed: 9
  - match: { user: { contains: early } }
    plan: S3
    until: 1ms
  - match: { user: { contains: pulse } }
    plan: S3
    every: 1h
    burst: 30m
`;
let server: HostedServer;
beforeAll(async () => {
  mkdirSync(join(folder, "fixtures"));
  const fixtures =
    "fixtures:\n  - match: {user: fixed}\n    answer: Hello\n    fault: S3\n  - {match: {user: bare}, fault: B8}\n";
  writeFileSync(join(folder, "fixtures", "one.yaml"), fixtures);
  writeFileSync(rulesFile, RULES);
  server = await hosted([...FLAGS, "--fixtures", join(folder, "fixtures"), "--fault-plan", rulesFile]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

/** Returns the plan that the answer names, or null if it was not disturbed. */
async function planOf(
  url: string,
  content: string,
  more: { id?: string; order?: object } = {},
): Promise<string | null> {
  const { id, order } = more;
  const body = { model: "m", messages: [{ role: "user", content }], max_tokens: 3, stream: true, understudy: order };
  const headers = { "content-type": "application/json", ...(id ? { "x-request-id": id } : {}) };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  await response.text();
  return response.headers.get("x-understudy-fault");
}

test("a fixture's plan applies with and without an answer, and the request's own plan has priority", async () => {
  expect(await planOf(server.url, "fixed", { id: "a" })).toBe("S3@*#seed=0,key=a");
  expect(await planOf(server.url, "bare", { id: "a" })).toBe("B8@head#seed=0,key=a");
  expect(await planOf(server.url, "fixed", { id: "a", order: { fault: "B7#seed=4" } })).toBe("B7@*#seed=4,key=a");
  expect(await planOf(server.url, "none of them")).toBeNull();
});

test("rules draw a share by seed and key, end after a time, and recur", async () => {
  expect(await planOf(server.url, "zero")).toBeNull();
  const draw = () => Promise.all(Array.from({ length: 40 }, (_, i) => planOf(server.url, "half", { id: `${i}` })));
  const first = await draw();
  const disturbed = first.filter((plan) => plan !== null);
  expect(disturbed.length).toBeGreaterThan(8);
  expect(disturbed.length).toBeLessThan(32);
  expect(disturbed.every((plan) => plan!.startsWith("B4@e1#seed=9,"))).toBe(true);
  expect(await draw()).toEqual(first);
  expect(await planOf(server.url, "early")).toBeNull();
  expect(await planOf(server.url, "pulse", { id: "p" })).toBe("S3@*#seed=0,key=p");
});

test("a changed file of rules applies from the next request on; if it is wrong, the error is reported and the old rules stay", async () => {
  writeFileSync(rulesFile, "faults:\n  - {match: {user: later}, plan: B1}\n");
  expect(await planOf(server.url, "later")).toStartWith("B1@*");
  writeFileSync(rulesFile, "faults:\n  - match: {user: later}\n    plan: B99\n");
  expect(await planOf(server.url, "later")).toStartWith("B1@*");
  await eventually(() =>
    server.output().includes('line 3: faults.0.plan: fault plan, character 1: "B99" is not a fault'),
  );
  rmSync(rulesFile);
  expect(await planOf(server.url, "later")).toStartWith("B1@*");
});

test.each([
  ["faults: [{plan: B1, share: 2}]", "line 1: faults.0.share: takes a share, 0 to 1"],
  ["faults: [{plan: B1, every: 3s}]", 'line 1: faults.0: "every" and "burst" go together'],
  ["faults: [{plan: B1, from: soon}]", "line 1: faults.0.from: takes a duration"],
  ["faults: [{plan: 'S1;S2'}]", "line 1: faults.0.plan: fault plan, character 1: S1 and S2 exclude each other"],
  ["faults: 5", "line 1: faults: takes a list"],
  ["faults: [", "line 1: not YAML"],
])("%s ends the start with one line of error", async (text, why) => {
  const file = join(folder, "wrong.yaml");
  writeFileSync(file, text);
  const failed = serve([...FLAGS, "--fault-plan", file]);
  expect(await failed.then(String, String)).toContain(
    `the server ended with 2:\nunderstudy serve: --fault-plan ${file}: ${why}`,
  );
});

test("chance disturbs a share of the answers with the named faults, equally after each start", async () => {
  const flags = [...FLAGS, "--seed", "5", "--fault-rate", "50", "--fault-types", "S3", "B*"];
  const runs: (string | null)[][] = [];
  for (let round = 0; round < 2; round++) {
    const chance = await hosted(flags);
    const plans: (string | null)[] = [];
    for (let i = 0; i < 30; i++) plans.push(await planOf(chance.url, "x"));
    runs.push(plans);
    await chance.stop();
  }
  expect(runs[0]).toEqual(runs[1]!);
  const ids = runs[0]!.flatMap((plan) => (plan === null ? [] : [plan.slice(0, 2)]));
  expect(ids.length).toBeGreaterThan(5);
  expect(ids.length).toBeLessThan(25);
  expect(ids.filter((id) => id !== "S3" && id[0] !== "B")).toEqual([]);
});
