/** Tests the limits of docs/reference/limits.md on memory that a client can occupy, and on time that it can make us wait. */
import { expect, test } from "bun:test";
import { type Clock, epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { aliveClient } from "../../../src/tools/stress/alive.ts";
import { stressCase } from "../../../src/tools/stress/cases.ts";
import { commandClient } from "../../../src/tools/stress/command.ts";
import { type StressClient, stressRun } from "../../../src/tools/stress/run.ts";
import { clientReport } from "../../../src/tools/stress/seen.ts";
import { stressWait } from "../../../src/tools/stress/wait.ts";

const MIB = 2 ** 20;

/** `times`: factor by which the simulated clock is faster than real time. */
async function run(client: StressClient, plan: string, times = 1) {
  const wall = new WallClock();
  const clock: Clock = {
    now: () => wall.now() * times,
    at: (dueUs, wake) => wall.at(dueUs / times, wake),
    nextUs: () => wall.nextUs() * times,
    turn: (act) => wall.turn(act),
    soon: (act) => wall.soon(act),
    close: () => wall.close(),
  };
  const settings = { concurrency: 1, hangMs: 4000, retries: null, port: 0, clock, epochSeconds };
  const beganUs = clock.now();
  const [result] = await stressRun(client, { ...settings, cases: [stressCase(plan, 1)] }, () => {});
  const tookUs = clock.now() - beganUs;
  clock.close();
  return { result: result!, tookUs };
}

const post = (url: string, body: string | Uint8Array<ArrayBuffer>) => fetch(url, { method: "POST", body });

test("at most 100 requests of a case are recorded, and each request is answered", async () => {
  let answered = 0;
  const { result } = await run(async ({ url }) => {
    for (let i = 0; i < 120; i++) if ((await post(`${url}/completions`, "{}")).status === 200) answered++;
    return clientReport({});
  }, "B4");
  expect([answered, result.requests]).toEqual([120, 100]);
});

test("request bodies and posted reports of more than 32 MiB get 413", async () => {
  const large = Buffer.alloc(32 * MIB + 1, 32);
  let status = 0;
  await run(async ({ url }) => {
    status = (await post(`${url}/completions`, large)).status;
    return clientReport({});
  }, "B4");
  const clock = new WallClock();
  const over = new AbortController();
  const statuses: number[] = [];
  const cases = [stressCase("B4", 1)];
  const listening = async (url: string) => {
    for (const body of [large, "{}"]) statuses.push((await post(`${url}/case/${cases[0]!.id}/seen`, body)).status);
    over.abort();
  };
  const settings = { cases, retries: null, port: 0, clock, epochSeconds, waitMs: 60_000, over: over.signal };
  await stressWait({ ...settings, listening: (url) => void listening(url) });
  clock.close();
  expect([status, statuses]).toEqual([413, [413, 400]]);
});

test("a case ends after 60 s, or 4 s after the last byte; a client has 5 s to stop", async () => {
  const never = await run(() => new Promise(() => {}), "B4", 60);
  expect(never.result.verdict).toBe("never-called");
  expect(never.tookUs / 1e6).toBeGreaterThanOrEqual(65);
  expect(never.tookUs / 1e6).toBeLessThan(600);
  const quiet = await run(
    async ({ url, signal }) => {
      await post(`${url}/completions`, "{}");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return clientReport({});
    },
    "B4",
    20,
  );
  expect(quiet.result.verdict).toBe("hang");
  expect(quiet.tookUs / 1e6).toBeGreaterThanOrEqual(4);
  expect(quiet.tookUs / 1e6).toBeLessThan(60);
});

test("4,000 characters of a client's report are kept", async () => {
  const text = "x".repeat(10_000);
  const { result } = await run(async ({ url }) => {
    await post(`${url}/completions`, "{}");
    return clientReport({ text });
  }, "B4");
  expect(result.said!.text).toHaveLength(4000);
});

const setsid = Bun.which("setsid");
test.skipIf(setsid === null)(
  "a process that leaves the program's process group is killed with it, and is not waited for",
  async () => {
    const sleeper = (words: string) => `Bun.spawn(${words}, { stdout: "inherit" }).unref(); await Bun.sleep(100);`;
    const ask = `await fetch(process.env.OPENAI_BASE_URL + "/completions", { method: "POST", body: "{}" });`;
    const program = (words: string[]) =>
      commandClient([process.execPath, "-e", ask + sleeper(JSON.stringify(words))], process.env, 500);
    const running = (seconds: string) => Bun.spawnSync(["pgrep", "-f", `^sleep ${seconds}$`]).stdout.toString();
    const { result } = await run(program([setsid!, "sleep", "61.7"]), "A4,401", 1);
    expect([result.verdict, running("61.7")]).toEqual(["error-swallowed", ""]);
    // A process without the environment of its run is not found. The run does not wait for its end.
    const hidden = await run(program(["env", "-i", setsid!, "sleep", "9.3"]), "B4", 20);
    expect(hidden.result.verdict).toBe("hang");
    expect(hidden.tookUs / 1e6).toBeLessThan(150);
  },
);

const MANY = "for (let i = 0; i < 20; i++) await new Promise((r) => process.stdout.write('x'.repeat(1_048_576), r));";
const LINE = (mib: number) =>
  `for await (const part of process.stdin) console.log(JSON.stringify({ text: "x".repeat(${mib * MIB}) }));`;

test("16 MiB of a program's output are kept; a line of more than 16 MiB is a crash", async () => {
  const asked = { url: "http://x/v1", id: "x", signal: new AbortController().signal, more: false, withTools: false };
  const { text } = await commandClient([process.execPath, "-e", MANY], process.env, 500)(asked);
  expect(text.length).toBeGreaterThan(15 * MIB);
  expect(text.length).toBeLessThanOrEqual(16 * MIB);
  const ended: string[] = [];
  for (const mib of [15, 20]) {
    const { ask, close } = aliveClient([process.execPath, "-e", LINE(mib)], process.env, 500);
    ended.push((await ask(asked)).ended);
    close();
  }
  expect(ended).toEqual(["answered", "crashed"]);
});

test("the error of a client is its own line, not the stack or the version that Node prints below it", async () => {
  const asked = { url: "http://x/v1", id: "x", signal: new AbortController().signal, more: false, withTools: false };
  const stack = "    at main (/x.mjs:1:7)";
  const printed = [
    ["Error: quota used up", "", ""],
    ["Error: quota used up", stack, "", "Node.js v20.20.2", ""],
    [
      "/x.mjs:1",
      "throw e",
      "^",
      "",
      "Error: quota used up",
      `${stack} {`,
      "  code: 7",
      "}",
      "",
      "Node.js v20.20.2",
      "",
    ],
  ];
  for (const lines of printed) {
    const code = `process.stderr.write(${JSON.stringify(lines.join("\n"))}); process.exit(1);`;
    const command = [process.execPath, "-e", code];
    expect((await commandClient(command, process.env, 500)(asked)).error).toBe("Error: quota used up");
    const { ask, close } = aliveClient(command, process.env, 500);
    expect((await ask(asked)).error).toBe("Error: quota used up");
    close();
  }
  const silent = [process.execPath, "-e", 'process.stderr.write("Node.js v20.20.2"); process.exit(3);'];
  expect((await commandClient(silent, process.env, 500)(asked)).error).toBe("exit code 3");
});
