/**
 * Tests the ways to run cases: a process that stays alive, and the user's own test suite; and the reduction of red plans with
 * many faults.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { StressProgress } from "../../../src/cli/stress/stress-progress.ts";
import { TerminalLine } from "../../../src/cli/terminal-line.ts";
import { parsePlan } from "../../../src/faults/parse.ts";
import { aliveClient } from "../../../src/tools/stress/alive.ts";
import { stressCase } from "../../../src/tools/stress/cases.ts";
import { randomPlan } from "../../../src/tools/stress/random-plans.ts";
import type { CaseResult } from "../../../src/tools/stress/result.ts";
import { type StressClient, stressRun } from "../../../src/tools/stress/run.ts";
import { clientReport } from "../../../src/tools/stress/seen.ts";
import { shrinkPlan } from "../../../src/tools/stress/shrink.ts";
import { stressWait } from "../../../src/tools/stress/wait.ts";
import { eventually } from "../../server.ts";
import { figure, seed, sized } from "../../size.ts";
import { client, type Way } from "./broken.ts";

setDefaultTimeout(1_200_000);

async function run(tested: StressClient, plans: readonly string[], hangMs = 1500, retries: number | null = null) {
  const clock = new WallClock();
  const cases = plans.map((plan) => stressCase(plan, seed));
  const settings = { cases, concurrency: 8, hangMs, retries, port: 0, clock, epochSeconds };
  const results = await stressRun(tested, settings, () => {});
  clock.close();
  return results;
}
const verdicts = (results: readonly CaseResult[]) => results.map(({ verdict }) => verdict);

/** A client that is correct, except for the byte order mark. `how`: name of the case, which decides on its other behaviour. */
const ALIVE = `
const say = (seen) => console.log(JSON.stringify(seen));
let rest = "";
for await (const part of process.stdin) {
  rest += part;
  for (let end = rest.indexOf("\\n"); end >= 0; end = rest.indexOf("\\n")) {
    const asked = JSON.parse(rest.slice(0, end));
    rest = rest.slice(end + 1);
    const r = await fetch(asked.baseUrl + "/completions", { method: "POST", body: '{"stream":true}' });
    const events = Buffer.from(await r.arrayBuffer()).toString().split("\\n\\n");
    const all = events.filter((e) => e.startsWith("data: {")).map((e) => JSON.parse(e.slice(6)));
    const text = all.map((j) => j.choices?.[0]?.text ?? "").join("");
    const how = asked.case.slice(0, 2);
    if (how === "B4") say({ text, usage: null, error: null, pid: process.pid });
    else if (how === "B5") console.log("no JSON");
    else if (how === "B7") { process.stdout.write('{"text":"ha'); process.exit(0); }
    else if (how === "B6") process.stdout.write("x".repeat(20_000_000));
    else if (how === "S3") { Bun.spawn(["sleep", "60"]); await new Promise(() => {}); }
    else say({ text, error: r.ok ? null : { kind: "Error", message: String(r.status), own: false } });
  }
}`;

test("a client that stays alive gets a line per case; wrong lines and hangs get a verdict, and no process is left", async () => {
  const { ask, close } = aliveClient([process.execPath, "-e", ALIVE], process.env, 500);
  const plans = ["B4", "B8", "B4@e3", "A4,401", "B5", "B7", "B6,bytes=500", "S3"];
  const results = await run(ask, plans);
  expect(verdicts(results)).toEqual(["ok", "text-lost", "ok", "raw-error", "crash", "crash", "crash", "hang"]);
  expect(results[0]!.said!.cost!.peakBytes).toBeGreaterThan(1e6);
  expect(results[4]!.why).toContain("not an answer: no JSON");
  close();
  await eventually(() => Bun.spawnSync(["pgrep", "-x", "-P", "1", "sleep"]).exitCode !== 0 || noSleeper());
});

test("a client that stays alive is not killed because of a case that it has finished", async () => {
  const line = '{"text":"x"}';
  const code = `for await (const part of process.stdin) { await Bun.sleep(100); console.log('${line}'); }`;
  const { ask, close } = aliveClient([process.execPath, "-e", code], process.env, 500);
  const [first, second] = [new AbortController(), new AbortController()];
  const asked = { url: "http://x/v1", more: false, withTools: false };
  expect((await ask({ ...asked, id: "a", signal: first.signal })).ended).toBe("answered");
  const answer = ask({ ...asked, id: "b", signal: second.signal });
  first.abort();
  expect((await answer).ended).toBe("answered");
  close();
});

/** True if no process of the group is left, which means no `sleep 60` among the children of this process. */
const noSleeper = () => !Bun.spawnSync(["pgrep", "-f", "^sleep 60$"]).stdout.toString().trim();

test("the user's own suite: cases are listed, reports may be posted, else only the wire is judged", async () => {
  const clock = new WallClock();
  const cases = ["B4", "S3", "A4,401", "B8"].map((plan) => stressCase(plan, 1));
  const over = new AbortController();
  let url = "";
  const listening = (at: string) => {
    url = at;
  };
  const settings = { cases, retries: 0, port: 0, clock, epochSeconds, waitMs: 60_000, over: over.signal, listening };
  const waited = stressWait(settings);
  const listed = (await (await fetch(`${url}/cases`)).json()) as { id: string; plan: string; url: string }[];
  expect(listed.map(({ plan }) => plan)).toEqual(["B4#seed=1", "S3#seed=1", "A4,401#seed=1", "B8#seed=1"]);
  const ask = (at: number) => client({})({ ...listed[at]!, signal: over.signal, more: false, withTools: false });
  const post = async (at: number, seen: unknown) => {
    const response = await fetch(`${listed[at]!.url.replace("/v1", "")}/seen`, {
      method: "POST",
      body: JSON.stringify(seen),
    });
    return [response.status, (await response.json()) as { verdict?: string; error?: string }] as const;
  };
  const { text } = await ask(0);
  expect((await post(0, { text }))[1].verdict).toBe("ok");
  await ask(1);
  expect((await post(1, { text: text.slice(3) }))[1].verdict).toBe("text-lost");
  const [status, { error }] = await post(1, { said: "nothing" });
  expect([status, error]).toEqual([400, expect.stringContaining("must have this shape")]);
  await ask(2);
  await ask(2);
  await fetch(`${url}/end`, { method: "POST" });
  const { results, notCalled } = await waited;
  clock.close();
  expect(results.map(({ verdict, by }) => [verdict, by])).toEqual([
    ["ok", "client"],
    ["text-lost", "client"],
    ["retry-storm", "wire"],
  ]);
  expect(notCalled).toBe(1);
});

const GROWS = "S12@e5,bytes=2MiB;H7,bytes=16KiB,for=10ms";
/** Starts over with each part, or keeps two copies of all earlier text for each 16 KiB. */
const growing = (how: "slow" | "memory") => `
const r = await fetch(process.env.OPENAI_BASE_URL + "/completions", { method: "POST", body: '{"stream":true}' });
let all = "", n = 0, sum = 0;
const kept = [];
for await (const part of r.body) {
  all += Buffer.from(part).toString("latin1");
  ${how === "slow" ? "for (let i = 0; i < 5 * all.length; i++) sum += all.charCodeAt(i % all.length);" : "for (; n < all.length; n += 16384) kept.push(Buffer.from(all), Buffer.from(all));"}
}
const events = Buffer.from(all, "latin1").toString().split("\\n\\n").filter((e) => e.startsWith("data: {"));
process.stdout.write(events.map((e) => JSON.parse(e.slice(6)).choices?.[0]?.text ?? "").join("") + "\\n");
if (sum < 0 || kept.length > 1e9) process.exit(1);`;

test("work that grows faster than the bytes is red as slow or memory; a correct client is green", async () => {
  const { commandClient } = await import("../../../src/tools/stress/command.ts");
  const ways = sized("stress", { sample: ["right"] as const, whole: ["right", "slow", "memory"] as const });
  const right = growing("slow").replace(/for \(let i.*/, "");
  for (const way of ways) {
    const code = way === "right" ? right : growing(way);
    const [result] = await run(commandClient([process.execPath, "-e", code], process.env, 500), [GROWS], 10_000);
    expect([way, result!.verdict, result!.why]).toEqual([way, way === "right" ? "ok" : way, expect.any(String)]);
  }
});

test("a client that disconnects after the last event is void if no fault could act, like one that stays", async () => {
  // Disconnects at the finish reason, before the end of the stream.
  const leaves: StressClient = async ({ url, signal }) => {
    const left = new AbortController();
    const body = '{"stream":true}';
    const response = await fetch(`${url}/completions`, {
      method: "POST",
      body,
      signal: AbortSignal.any([signal, left.signal]),
    });
    let text = "";
    for await (const part of response.body!) {
      text += Buffer.from(part).toString();
      if (/"finish_reason":"/.test(text)) break;
    }
    left.abort();
    return clientReport({ text: "", finish: "stop" });
  };
  const results = await run(leaves, ["J8@done;T1@done,300ms", "B4;T1@done,300ms"]);
  // The standards allow several reactions to a pause.
  expect(verdicts(results)).toEqual(["void", "policy"]);
});

test("progress is printed only on a terminal: cases, red cases, reductions", () => {
  let text = "";
  const shown = new StressProgress(new TerminalLine(true, (more) => (text += more)));
  shown.finished("ok", 3);
  shown.finished("text-lost", 3);
  shown.finished("void", 3);
  shown.shrinking(1, 2, 7);
  shown.clear();
  shown.clear();
  const lines = ["1 of 3 cases, 0 red", "2 of 3 cases, 1 red", "3 of 3 cases, 1 red"];
  expect(text).toBe([...lines, "shrinking red plan 1 of 2, 7 runs", ""].map((line) => `\r\x1b[K${line}`).join(""));
  const silent = new StressProgress(new TerminalLine(false, () => expect.unreachable()));
  silent.finished("ok", 1);
  silent.clear();
});

/** Mistakes that one fault shows, each with such a fault. */
const SHOWN: readonly (readonly [way: Way, fault: string])[] = [
  [{ lines: /\n/ }, "S1@*,whole"],
  [{ dataPrefix: "data: ", needsFinish: false }, "S3@*"],
  [{ comments: "data" }, "S4@e3x2,ping"],
  [{ reasoning: "text" }, "J18@*"],
  [{ errors: "ignored", needsFinish: false }, "J1@e7,own"],
  [{ allChoices: true }, "J10@*"],
  [{ dropsRepeated: true }, "J9@e9x3"],
  [{ knownFieldsOnly: true }, "S10@*,unknown"],
  [{ trims: true }, "J14@*,blank"],
];

/** Returns a plan of five to eight faults, one of which shows the mistake. Null if they exclude each other. */
function noisy(i: number, fault: string): string | null {
  const [list, hash] = randomPlan(seed * 1000 + i, 4, 7).split("#") as [string, string];
  const faults = list.split(";");
  if (faults.length < 4 || faults.some((other) => other.split("@")[0] === fault.split("@")[0])) return null;
  const line = `${faults.toSpliced(i % faults.length, 0, fault).join(";")}#${hash}`;
  try {
    parsePlan(line);
    return line;
  } catch {
    return null;
  }
}

/** Reduces the plan. Null if it is not red because of the text of its answer. */
async function shrunkCase(way: Way, line: string) {
  const verdictOf = async (plan: string) => (await run(client(way), [plan]))[0]!.verdict;
  const verdict = await verdictOf(line);
  if (["ok", "policy", "void", "hang", "crash"].includes(verdict)) return null;
  const shrunk = await shrinkPlan(line, async (plan) => (await verdictOf(plan)) === verdict, 80);
  const again = await verdictOf(shrunk.line);
  return { from: line, verdict, again, faults: parsePlan(shrunk.line).faults.length, ...shrunk };
}

test("red plans of five to eight faults are reduced to the needed faults, with the same verdict", async () => {
  const wanted = sized("stress", { sample: 2, whole: 30 });
  const found: NonNullable<Awaited<ReturnType<typeof shrunkCase>>>[] = [];
  for (let i = 0; found.length < wanted && i < 200 * wanted; i += SHOWN.length) {
    const plans = SHOWN.map(([way, fault], at) => [way, noisy(i + at, fault)] as const);
    const some = plans.flatMap(([way, line]) => (line === null ? [] : [shrunkCase(way, line)]));
    for (const plan of await Promise.all(some.slice(0, wanted)))
      if (plan !== null && found.length < wanted) found.push(plan);
  }
  expect(found.length).toBe(wanted);
  expect(found.filter(({ faults, runs, verdict, again }) => faults > 2 || runs > 80 || verdict !== again)).toEqual([]);
  figure("shrunkPlans", found.length);
  figure("mostFaultsLeft", Math.max(...found.map(({ faults }) => faults)));
  figure("mostRuns", Math.max(...found.map(({ runs }) => runs)));
});

test("the command: JUnit, HTML page, a reduced random plan, the ready file of a suite", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-stress-"));
  const main = new URL("../../../src/main.ts", import.meta.url).pathname;
  const [xml, page, json] = ["x.xml", "x.html", "x.json"].map((name) => join(folder, name)) as [string, string, string];
  const words = [
    "--faults",
    "B8,B4",
    "--junit",
    xml,
    "--html",
    page,
    "--json",
    json,
    "--protocol",
    "understudy-client/1",
  ];
  const child = Bun.spawnSync([process.execPath, main, "stress", ...words, "--", process.execPath, "-e", ALIVE]);
  expect([child.exitCode, child.stderr.toString()]).toEqual([1, ""]);
  expect(readFileSync(xml, "utf8")).toContain('<testsuite name="understudy stress" tests="2" failures="1" skipped="0"');
  expect(readFileSync(xml, "utf8")).toContain('<failure type="text-lost"');
  const html = readFileSync(page, "utf8");
  expect(html).toContain("\\xef\\xbb\\xbfdata:");
  expect(html).toContain("--replay &apos;B8#seed=1&apos; -- ");
  expect(html).not.toContain("<script");
  const { results } = JSON.parse(readFileSync(json, "utf8")) as { results: CaseResult[] };
  expect(results.map(({ verdict, wire }) => `${verdict} ${wire.length}`)).toEqual(["text-lost 1", "ok 0"]);
  const ready = join(folder, "ready.json");
  const suite = Bun.spawn([process.execPath, main, "stress", "--wait", "1m", "--faults", "B8", "--ready-file", ready], {
    stdout: "pipe",
    stderr: "pipe",
  });
  await eventually(() => JSON.parse(readFileSync(ready, "utf8")).url !== "");
  const { url } = JSON.parse(readFileSync(ready, "utf8")) as { url: string };
  await fetch(`${url}/end`, { method: "POST" });
  expect(await suite.exited).toBe(2);
  expect(await suite.stdout.text()).toContain("1 cases were not called");
  rmSync(folder, { recursive: true });
});
