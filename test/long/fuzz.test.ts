/**
 * Fuzzes a live server: first a control run with valid requests at the same rate, then mutated requests. `test long` is the
 * whole; the sample takes a few seconds.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { main as program } from "../program.ts";
import { type Server, serve } from "../server.ts";
import { figure } from "../size.ts";
import { fuzz, type ProcessResources, resourcesOf, underWay } from "./fuzz.ts";
import { inputs as inputsInAll, seconds as secondsInAll, seed } from "./plan.ts";

setDefaultTimeout(3_600_000);

const ITL_MS = 5;
const FLAGS = [
  ...["--served-model-name", "golden", "--timing", `constant:ttft=5ms,itl=${ITL_MS}ms`, "--disable-uvicorn-access-log"],
  ...["--max-model-len", "1024", "--num-gpu-blocks-override", "32768", "--max-num-seqs", "1024"],
  // Valid inputs also use tools.
  ...["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
];
/**
 * Allowed growth of the process between the middle and the end of the run. Caches fill, and garbage collections come at any
 * time.
 */
const GROWTH_MB = 48;
/**
 * Allowed factor by which tokens may be later next to mutated requests than next to valid ones, in addition to two steps. The
 * server shares the machine with both kinds of clients.
 */
const LATER = 5;

interface Lateness {
  readonly events: number;
  readonly p99: number;
}

/** Runs `load` while a separate process reads a stream. Returns the result and the delays of the stream. */
async function withLateness<T>(server: Server, load: Promise<T>): Promise<readonly [T, Lateness]> {
  const script = new URL("steady-stream.ts", import.meta.url).pathname;
  const child = Bun.spawn([process.execPath, script, server.url, String(ITL_MS)], { stdin: "pipe", stdout: "pipe" });
  const done = await load;
  child.stdin.end();
  return [done, JSON.parse(await child.stdout.text())];
}

function check(url: string, args: readonly string[]) {
  const child = Bun.spawn([process.execPath, program, "check", `${url}/metrics`, ...args], {
    stdout: "pipe",
    stderr: "pipe",
  });
  return { child, output: child.stdout.text() };
}

/** Waits up to 30 s until the value is as wanted, and fails with the last value otherwise. */
async function settled(value: () => number | Promise<number>, wanted: (value: number) => boolean): Promise<void> {
  let last = await value();
  for (let i = 0; i < 300 && !wanted(last); i++) {
    await Bun.sleep(100);
    last = await value();
  }
  expect(wanted(last), `${value}: ${last}`).toBe(true);
}

const name = `fuzzing, seed ${seed}: only answers that vLLM could give, no crash, no leak, and other streams stay on time`;
test(name, async () => {
  const [inputs, seconds] = [inputsInAll, secondsInAll];
  const server = await serve(FLAGS);
  const watch = check(server.url, ["--for", "24h", "--max-model-len", "1024", "--max-num-seqs", "1024"]);
  try {
    const patientRun = await fuzz(server, { seed, inputs: 300, seconds: 60, plain: true, patient: true });
    expect([patientRun.sent, patientRun.wrong]).toEqual([300, []]);
    const control = fuzz(server, {
      seed,
      inputs: Math.ceil(inputs / 10),
      seconds: Math.max(1, seconds / 5),
      plain: true,
    });
    const [plain, usual] = await withLateness(server, control);
    expect(plain.wrong).toEqual([]);
    // By now threads that start with the first request run, and all connections have closed.
    await settled(
      () => underWay(server.url),
      (left) => left === 0,
    );
    const before = resourcesOf(server.pid);

    const held: ProcessResources[] = [];
    const tenth = () => void held.push(resourcesOf(server.pid));
    const [spoiled, late] = await withLateness(server, fuzz(server, { seed, inputs, seconds, tenth }));
    figure("fuzz", { plain: plain.sent, usual, ...spoiled, late, held });
    expect(spoiled.wrong).toEqual([]);
    expect(spoiled.sent).toBeGreaterThan(100);
    expect(usual.events).toBeGreaterThan(100);
    expect(late.events).toBeGreaterThan(100);
    expect(late.p99).toBeLessThan(LATER * usual.p99 + 2 * ITL_MS);

    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    await settled(
      () => underWay(server.url),
      (left) => left === 0,
    );
    // Idle connections close after 5 to 9 s. Those of this test's scrapes stay.
    const most = before.descriptors + 4;
    await settled(
      () => resourcesOf(server.pid).descriptors,
      (open) => open <= most,
    );
    const after = resourcesOf(server.pid);
    const middle = held[Math.floor(held.length / 2)] ?? after;
    expect(after.residentMb).toBeLessThan(middle.residentMb * 1.1 + GROWTH_MB);

    watch.child.kill("SIGINT");
    expect([await watch.child.exited, await watch.output]).toEqual([0, expect.any(String)]);
    const rest = check(server.url, ["--rest", "--max-model-len", "1024", "--max-num-seqs", "1024"]);
    expect([await rest.child.exited, await rest.output]).toEqual([0, expect.any(String)]);
  } finally {
    watch.child.kill("SIGKILL"); // no effect if the process has exited
    await server.stop();
  }
});
