/**
 * Checks that each case of a full `stress` run, and the command that the report prints for it, give the same bytes and verdict.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { type StressCase, stressCase, stressCases } from "../../../src/tools/stress/cases.ts";
import { markupText } from "../../../src/tools/stress/junit.ts";
import { stressRun } from "../../../src/tools/stress/run.ts";
import { clientReport } from "../../../src/tools/stress/seen.ts";
import { main } from "../../program.ts";
import { sampled, seed } from "../../size.ts";

setDefaultTimeout(600_000);

/** Milliseconds without a byte after which the client closes, because some faults leave the connection open. */
const QUIET_MS = 1500;

/** Returns all bytes of one request to the URL, without headers that contain the time. */
function bytesOf(url: string, tools: boolean): Promise<string> {
  const { hostname, port, pathname } = new URL(`${url}/chat/completions`);
  const body = JSON.stringify({ model: "m", stream: true, tools: tools ? [] : undefined });
  const parts: Buffer[] = [];
  return new Promise((resolve) => {
    const socket = net.connect({ host: hostname, port: Number(port) });
    socket.setTimeout(QUIET_MS, () => socket.destroy());
    socket.write(
      `POST ${pathname} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.on("end", () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () =>
      resolve(
        Buffer.concat(parts)
          .toString("latin1")
          .replace(/(date|retry-after): \w{3}, [^\r]*/g, "$1"),
      ),
    );
  });
}

/** By plan: the bytes of the first request, and the verdict. */
async function wire(cases: readonly StressCase[]): Promise<Map<string, readonly [bytes: string, verdict: string]>> {
  const clock = new WallClock();
  const bytes = new Map<string, string>();
  const settings = { cases, concurrency: 24, hangMs: 20_000, retries: null, port: 0, clock, epochSeconds };
  const results = await stressRun(
    async ({ url, id, withTools }) => {
      const came = await bytesOf(url, withTools);
      bytes.set(id, bytes.get(id) ?? came);
      return clientReport({ text: "" });
    },
    settings,
    () => {},
  );
  clock.close();
  return new Map(results.map(({ id, plan, verdict }) => [plan, [bytes.get(id)!, verdict]]));
}

test("the printed plan of every case repeats that case with any --seed", () => {
  for (const from of [1, 2, 7]) {
    const cases = stressCases([], from);
    expect(cases.length).toBeGreaterThan(150);
    for (const stressed of cases) expect(stressCase(stressed.line, 99)).toEqual(stressed);
  }
  for (const line of ["B8#key=a%2Cb", "B8#seed=3,key=a", "B8#key=a,seed=3"]) {
    const stressed = stressCase(line, 5);
    expect(stressCase(stressed.line, 99)).toEqual(stressed);
    expect(stressed.plan.seed).toBe(line.includes("seed=3") ? 3 : 5);
  }
  expect(stressCases(["B8", "B8@head", "B8@head#seed=1"], 1).map(({ line }) => line)).toEqual([
    "B8#seed=1",
    "B8@head#seed=1",
  ]);
});

test("a run of all faults and its printed plans give the same bytes and verdicts, twice", async () => {
  // Leave out cases of several requests at once, whose order varies.
  const cases = sampled("stress", stressCases([], seed), 30).filter(({ atOnce }) => !atOnce);
  const first = await wire(cases);
  for (let time = 0; time < 2; time++) {
    const again = await wire([...first.keys()].map((line) => stressCase(line, 99)));
    for (const [plan, seen] of first) expect([plan, ...again.get(plan)!]).toEqual([plan, ...seen]);
  }
});

const folder = mkdtempSync(join(tmpdir(), "understudy-replay-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the printed command gives the same verdict in a shell, three times; also in JSON and HTML", async () => {
  // Requires a finish reason only after the first text, so the case is red only if the fault is drawn before the first text.
  const client = join(folder, "it's a client.ts");
  writeFileSync(
    client,
    `const r = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", { method: "POST", body: '{"stream":true}' });
    let [text, finish] = ["", null];
    for (const line of (await r.text()).split("\\n")) {
      if (!line.startsWith("data: {")) continue;
      const [choice] = JSON.parse(line.slice(6)).choices;
      text += choice?.delta.content ?? "";
      finish ??= choice?.finish_reason ?? null;
    }
    console.log(text);
    process.exit(r.status !== 200 || (text !== "" && finish === null) ? 1 : 0);`,
  );
  const run = async (command: readonly string[]) => {
    const child = Bun.spawn([...command], { stdout: "pipe", stderr: "pipe" });
    const [out, code] = await Promise.all([child.stdout.text(), child.exited]);
    return { out, code };
  };
  const [json, html] = [join(folder, "x.json"), join(folder, "x.html")];
  const options = ["--faults", "H8", "--timeout", "1500ms", "--retries", "0", "--json", json, "--html", html];
  const words = [process.execPath, main, "stress", ...options, "--", process.execPath, client, "$HOME"];
  const first = await run(words);
  expect(first.code).toBe(1);
  expect(first.out).toMatch(/^error-swallowed +H8@\?12,inject an HTML page inside the body/m);
  const command = first.out.trim().split("\n").at(-1)!.trim();
  expect(command).toStartWith("./bin/understudy stress --retries 0 --timeout 1.5s --replay 'H8@?12,inject#seed=1' -- ");
  for (let time = 0; time < 3; time++) {
    const again = await run(["sh", "-c", command]);
    expect([again.code, again.out.split("\n")[0]]).toEqual([1, first.out.split("\n")[0]]);
  }
  const { results } = JSON.parse(readFileSync(json, "utf8"));
  const [red] = results.filter(({ verdict }: { verdict: string }) => verdict === "error-swallowed");
  expect([red.replay, red.fault]).toEqual([command, "an HTML page inside the body, which it ends"]);
  expect(red.why).toMatch(/^The client reported no error, but .*\.$/);
  const page = readFileSync(html, "utf8");
  expect(page).toContain("an HTML page inside the body, which it ends");
  expect(page).toContain(markupText(command));
});
