/**
 * Does a server stand whatever it is sent? A control with requests as they are meant, at the same rate; then spoiled ones.
 * `test:long` is the whole, a few seconds the sample.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { main as program } from "../program.ts";
import { type Server, serve } from "../server.ts";
import { figure } from "../size.ts";
import { fuzz, type Holding, holding, underWay } from "./fuzz.ts";
import { inputs as inputsInAll, seconds as secondsInAll, seed } from "./plan.ts";

setDefaultTimeout(3_600_000);

const ITL_MS = 5;
const FLAGS = [
  ...["--served-model-name", "golden", "--timing", `constant:ttft=5ms,itl=${ITL_MS}ms`, "--disable-uvicorn-access-log"],
  ...["--max-model-len", "1024", "--num-gpu-blocks-override", "32768", "--max-num-seqs", "1024"],
  // Plain inputs have tools, too.
  ...["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
];
/** What a process may grow by between the middle of the run and its end: caches fill, collections come when they come. */
const GROWTH_MB = 48;
/** A token may be so many times later beside spoiled requests than beside plain ones, and two steps more: both share the machine with the clients. */
const LATER = 5;

interface Lateness {
  readonly events: number;
  readonly p99: number;
}

/** Does `load` while a process of its own reads a stream. */
async function beside<T>(server: Server, load: Promise<T>): Promise<readonly [T, Lateness]> {
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
  return { child, said: child.stdout.text() };
}

/** Asks until the value is as wanted, for half a minute; then says what it is. */
async function settled(value: () => number | Promise<number>, wanted: (value: number) => boolean): Promise<void> {
  let last = await value();
  for (let i = 0; i < 300 && !wanted(last); i++) {
    await Bun.sleep(100);
    last = await value();
  }
  expect(wanted(last), `${value}: ${last}`).toBe(true);
}

const name = `fuzzing, seed ${seed}: nothing but what vLLM would answer, no crash, no leak, streams beside it on time`;
test(name, async () => {
  const [inputs, seconds] = [inputsInAll, secondsInAll];
  const server = await serve(FLAGS);
  const watch = check(server.url, ["--for", "24h", "--max-model-len", "1024", "--max-num-seqs", "1024"]);
  try {
    const asked = await fuzz(server, { seed, inputs: 300, seconds: 60, plain: true, patient: true });
    expect([asked.sent, asked.wrong]).toEqual([300, []]);
    const control = fuzz(server, {
      seed,
      inputs: Math.ceil(inputs / 10),
      seconds: Math.max(1, seconds / 5),
      plain: true,
    });
    const [plain, usual] = await beside(server, control);
    expect(plain.wrong).toEqual([]);
    // Threads that start with the first request have begun, and what was open has closed.
    await settled(
      () => underWay(server.url),
      (left) => left === 0,
    );
    const before = holding(server.pid);

    const held: Holding[] = [];
    const tenth = () => void held.push(holding(server.pid));
    const [spoiled, late] = await beside(server, fuzz(server, { seed, inputs, seconds, tenth }));
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
    // Idle connections go after 5 to 9 s; the ones of this test's own scrapes stay.
    const most = before.descriptors + 4;
    await settled(
      () => holding(server.pid).descriptors,
      (open) => open <= most,
    );
    const after = holding(server.pid);
    const middle = held[Math.floor(held.length / 2)] ?? after;
    expect(after.residentMb).toBeLessThan(middle.residentMb * 1.1 + GROWTH_MB);

    watch.child.kill("SIGINT");
    expect([await watch.child.exited, await watch.said]).toEqual([0, expect.any(String)]);
    const rest = check(server.url, ["--rest", "--max-model-len", "1024", "--max-num-seqs", "1024"]);
    expect([await rest.child.exited, await rest.said]).toEqual([0, expect.any(String)]);
  } finally {
    watch.child.kill("SIGKILL"); // without effect where it has ended
    await server.stop();
  }
});
