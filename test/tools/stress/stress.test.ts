/** Tests that each broken client gets the right verdict, and that a correct client is never red. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { type StressCase, stressCase, stressCases } from "../../../src/tools/stress/cases.ts";
import { referenceClient } from "../../../src/tools/stress/reference.ts";
import type { CaseResult } from "../../../src/tools/stress/result.ts";
import { type StressClient, stressRun } from "../../../src/tools/stress/run.ts";
import { isRed, type StressVerdict } from "../../../src/tools/stress/verdict.ts";
import { main } from "../../program.ts";
import { figure, sampled, seed, sized } from "../../size.ts";
import { client, type Way } from "./broken.ts";

setDefaultTimeout(600_000);

const run = (tested: StressClient, plans: readonly string[], retries: number | null) =>
  runCases(
    tested,
    plans.map((plan) => stressCase(plan, seed)),
    retries,
  );

async function runCases(
  tested: StressClient,
  cases: readonly StressCase[],
  retries: number | null,
  hangMs = 1500,
): Promise<CaseResult[]> {
  const clock = new WallClock();
  const settings = { cases, concurrency: 16, hangMs, retries, port: 0, clock, epochSeconds };
  const results = await stressRun(tested, settings, () => {});
  clock.close();
  return results;
}

/** The mistake, a plan that shows it, and the expected verdict. */
const BROKEN: readonly (readonly [name: string, way: Way, plan: string, verdict: StressVerdict])[] = [
  ["decodes each part by itself", { decodesEachPart: true }, "B1", "text-garbled"],
  ["reads Latin-1", { latin1: true }, "B2,plain", "text-garbled"],
  ["splits lines only at LF", { lines: /\n/ }, "S1,whole", "false-error"],
  ["does not split lines at CR", { lines: /\r?\n/ }, "S2,cr", "false-error"],
  ["splits lines at U+2028 and U+0085", { lines: /[\n\u2028\u0085]/ }, "B2,lines", "false-error"],
  ["requires a blank after data:", { dataPrefix: "data: ", needsFinish: false }, "S3", "text-lost"],
  ["reads comments as data", { comments: "data" }, "S4,ping", "false-error"],
  ["keeps the byte order mark", { keepsMark: true, path: "/completions" }, "B8", "text-lost"],
  ["does not require a finish reason", { needsFinish: false }, "S13@e5,bytes=1MB", "incomplete-unseen"],
  ["ignores errors", { errors: "ignored", needsFinish: false }, "J1@e5,own", "error-swallowed"],
  [
    "passes errors without a wrapping over",
    { errors: "ignored", needsFinish: false },
    "J1@e5,event",
    "error-swallowed",
  ],
  ["ignores events that are not JSON", { noJson: "ignored", needsFinish: false }, "J2@e5", "error-swallowed"],
  ["continues to read after [DONE]", { afterDone: "read" }, "E4,data", "text-doubled"],
  ["waits for the end of the body", { waitsForClose: true }, "E3,for=8s", "hang"],
  ["joins the text of all choices", { allChoices: true }, "J10", "text-garbled"],
  ["drops repeated pieces", { dropsRepeated: true }, "J9@e8", "text-lost"],
  ["requires a choice in each chunk", { needsChoice: true }, "J3", "false-error"],
  ["looks for [DONE] anywhere", { doneAnywhere: true, needsFinish: false }, "J15@e5", "text-lost"],
  ["refuses fields that it does not know", { knownFieldsOnly: true }, "S10,unknown", "false-error"],
  ["reads each data line as an event", { dataLines: "each" }, "S9@e5,lines", "false-error"],
  ["dispatches an event without data", { emptyEvents: "error" }, "S16@e5", "false-error"],
  ["drops long lines", { lineMost: 16_384 }, "S12@e5", "text-lost"],
  ["trims pieces", { trims: true }, "J14,blank", "text-lost"],
  ["crashes on an event that is not JSON", { noJson: "crash" }, "J8@e5,nan", "crash"],
  ["reports wrong usage", { usage: "wrong" }, "J3", "usage-wrong"],
  ["leaves its connection open in the middle of an answer", { leavesOpen: true }, "E3,for=8s", "leak"],
  ["appends names of tool calls", { calls: "names added" }, "J16,each", "tools-wrong"],
  ["requires a function in each delta of a tool call", { calls: "with function" }, "J16,no-function", "false-error"],
  ["reads each chunk as the whole text", { chunks: "whole text" }, "B4", "text-lost"],
  ["drops the rest of a line", { noJson: "ignored", needsFinish: false }, "S15@e5", "incomplete-unseen"],
  ["ignores an error without a wrapper", { needsFinish: false }, "J1@e5,bare", "error-swallowed"],
  ["reads reasoning as text", { reasoning: "text" }, "J18", "text-garbled"],
  ["reads both fields of reasoning", { reasoning: "both" }, "J19,both", "reasoning-wrong"],
  ["gives up when several requests arrive together", {}, "A3,open=2;T4,events=4,pause=60ms", "retry-missing"],
  [
    "asks again though it had text",
    { retries: { times: 1, after: "everything", waits: true } },
    "E7@e9",
    "retried-after-tokens",
  ],
  ["does not retry", {}, "A2,503", "retry-missing"],
  ["retries at once", { retries: { times: 1, after: "passing", waits: false } }, "A1,seconds", "retry-early"],
  ["retries too often", { retries: { times: 5, after: "everything", waits: false } }, "A4,401", "retry-storm"],
];

/** All in parallel, because most of the time is waiting. */
let found: readonly CaseResult[][];
beforeAll(async () => {
  found = await Promise.all(
    BROKEN.map(([, way, plan, verdict]) => run(client(way), [plan], verdict.startsWith("retry-") ? 1 : null)),
  );
});

test.each(BROKEN.map(([name, , , verdict], at) => [name, verdict, at] as const))(
  "a client that %s: %s",
  (_, verdict, at) => {
    const [result] = found[at]!;
    expect([result!.verdict, result!.why]).toEqual([verdict, expect.any(String)]);
  },
);

test("a correct client is green for all faults and several seeds, and so is a retrying one", async () => {
  const seeds = sized("stress", { sample: 1, whole: 20 });
  const cases = Array.from({ length: seeds }, (_, i) => sampled("stress", stressCases([], seed + i), 60)).flat();
  const clock = new WallClock();
  const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
  const results = await runCases(referenceClient(timer, 10_000, 1), cases, 1, 4000);
  clock.close();
  expect(results.filter(({ verdict }) => isRed(verdict))).toEqual([]);
  expect(results.filter(({ verdict }) => verdict === "ok").length).toBeGreaterThan(0.75 * cases.length);
  figure("cases", results.length);
});

test("behaviour that no standard forbids is not red", async () => {
  const refuses: StressClient = async (asked) => ({ ...(await client({})(asked)), error: "refused" });
  const open = ["S6@e5,colon", "S6@e5,bare", "E2", "J7,zero", "J7,no-index", "B3@e5,half", "J11,each"];
  for (const tested of [client({}), client({ needsFinish: false }), refuses])
    expect((await run(tested, open, null)).map(({ verdict }) => verdict)).toEqual(open.map(() => "policy"));
  // A POST may have been served, and a conflict does not pass by itself, so no retry is required.
  const single = ["E8,fin", "E8,rst", "A2,409"];
  expect((await run(client({}), single, 2)).map(({ verdict }) => verdict)).toEqual(["ok", "ok", "ok"]);
  // fetch follows a redirect, which does not count as a retry.
  const redirects = ["H9,307", "H9,308"];
  expect((await run(client({}), redirects, 0)).map(({ verdict, requests }) => [verdict, requests])).toEqual([
    ["ok", 2],
    ["ok", 2],
  ]);
  const either = ["E1,done", "E4,error", "J5,empty", "J13@e5,deep", "S8@e5"];
  for (const tested of [client({}), refuses])
    expect((await run(tested, either, null)).map(({ verdict }) => verdict)).toEqual(either.map(() => "ok"));
});

test("the command: output and exit code of a program, a repeated plan, expected verdicts, wrong usage", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-stress-"));
  const program = join(folder, "client.ts");
  // A client that is correct, except for the byte order mark and errors within the stream.
  writeFileSync(
    program,
    `const r = await fetch(process.env.OPENAI_BASE_URL + "/completions", { method: "POST", body: JSON.stringify({ stream: true }) });
    const events = Buffer.from(await r.arrayBuffer()).toString().split("\\n\\n");
    const all = events.filter((e) => e.startsWith("data: {")).map((e) => JSON.parse(e.slice(6)));
    process.stdout.write(all.map((j) => j.choices?.[0]?.text ?? "").join("") + "\\n");
    process.exit(r.status === 200 ? 0 : 1);`,
  );
  const stress = async (...words: string[]) => {
    const child = Bun.spawn([process.execPath, main, "stress", ...words], { stdout: "pipe", stderr: "pipe" });
    const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    return { out, err, code };
  };
  const json = join(folder, "known.json");
  const first = await stress("--faults", "B8,B1,J1", "--json", json, "--", process.execPath, program);
  expect(first.code).toBe(1);
  expect(first.out).toMatch(/^text-lost +B8 byte order mark at the start\. The text differs from character 0: /m);
  expect(first.out).toMatch(/^error-swallowed +J1@\?12,own an error inside the stream, as the dialect writes it\. /m);
  expect(first.out).toContain("5 cases: 1 ok, 1 text-lost, 3 error-swallowed");
  const known = await stress("--faults", "B8,B1,J1", "--expect", json, "--", process.execPath, program);
  expect([known.code, known.err]).toEqual([0, ""]);
  const again = await stress("--replay", "B8#seed=1", "--", process.execPath, program);
  expect([again.code, again.out.includes("text-lost")]).toEqual([1, true]);
  const silent = await stress("--replay", "B8", "--", process.execPath, "-e", "0");
  expect([silent.code, silent.out.includes("never-called")]).toEqual([2, true]);
  const taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const inUse = ["--port", `${taken.port}`, "--faults", "B8"];
  for (const [words, why] of [
    [[], "needs one of"],
    [["--", "no-such-program-anywhere"], "no such program"],
    [["--replay", "B99", "--client", "reference"], 'fault plan, character 1: "B99" is not a fault'],
    [["--faults", "X1", "--client", "reference"], "--faults: takes ids of docs/reference/faults.md"],
    [["--faults", "G*", "--client", "reference"], "none of these faults affects HTTP/1.1"],
    [["--expect", join(folder, "none.json"), "--client", "reference"], "cannot be read"],
    [["word", "--client", "reference"], "word: unknown"],
    [[...inUse, "--client", "reference"], `--port ${taken.port}: is in use`],
    [[...inUse, "--wait", "1m"], `--port ${taken.port}: is in use`],
  ] as const) {
    const { err, code } = await stress(...words);
    expect([code, err.trim().split("\n").length, err.includes(why)]).toEqual([2, 1, true]);
  }
  taken.stop();
  rmSync(folder, { recursive: true });
});

test("a program that hangs, dies by a signal or prints endlessly gets a verdict, and no process is left", async () => {
  const { commandClient } = await import("../../../src/tools/stress/command.ts");
  const program = (code: string) => commandClient([process.execPath, "-e", code], process.env, 500);
  const ask =
    'await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", { method: "POST", body: "{\\"stream\\":true}" }).then((r) => r.text());';
  const [hung] = await run(
    program(`${ask} process.on("SIGTERM", () => {}); await new Promise((r) => setTimeout(r, 60_000));`),
    ["B4"],
    null,
  );
  expect(hung!.verdict).toBe("hang");
  const [dead] = await run(program(`${ask} process.kill(process.pid, "SIGKILL");`), ["B4"], null);
  expect(dead!.verdict).toBe("crash");
  const [loud] = await run(
    program(`${ask} for (let i = 0; i < 1000; i++) console.log("x".repeat(100_000));`),
    ["B4"],
    null,
  );
  expect(["text-garbled", "hang"]).toContain(loud!.verdict);
});
