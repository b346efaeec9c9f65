/**
 * Makes each thread of a server fail at a random time under load. Requests may only fail as docs/how-to/crash.md describes, and
 * afterwards the server must answer all requests again. `npx bun run test schedules --failures N` makes each thread fail N
 * times.
 */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ALARMS_MAX } from "../../src/base/clock.ts";
import { main } from "../program.ts";
import { eventually } from "../server.ts";
import { figure, sampled, seed, sized } from "../size.ts";
import { MODEL, seedOfOneThread } from "./load.ts";
import { type Failure, mix, Page } from "./page.ts";
import { triton, trtllmServe, vllm, withTokenizer } from "./roles.ts";
import { DelayedServer } from "./under-delays.ts";

/** Failures of each thread, on all kinds of servers together. */
const TRIALS = Number(process.env.TEST_FAILURES ?? sized("schedules", { sample: 1, whole: 200 }));
/** KV events at any free port. */
const KV_EVENTS = { enable_kv_cache_events: true, endpoint: "tcp://127.0.0.1:*" };
/** The kinds of servers that have threads. */
const SETUPS = {
  vllm: vllm(["--enable-lora", `--kv-events-config=${JSON.stringify(KV_EVENTS)}`]),
  "vllm with --tokenizer": withTokenizer,
  triton,
  "trtllm-serve": trtllmServe,
  "vllm with --workers": vllm(["--workers", "2"]),
} as const;
type Kind = keyof typeof SETUPS;
/** Failures per server: fewer than the errors that a server prints (`LOGGED_ERRORS_MAX`). */
const FAILURES_OF_A_SERVER = 10;
const ENGINE_BROKE = 70;
const SOURCES = new URL("../../src", import.meta.url).pathname;
const CASES_OF_A_SAMPLE = 10;
/** Time after which a request without an end counts as forgotten, in milliseconds. */
const HANGS_MS = 30_000;
/** Matches the line that a server prints before its process exits with a broken engine. */
const ENGINE_ENDS = /understudy-crash-/;
const END_MS = 10_000;
/** Number of loads within which an ordered failure must happen. */
const LOADS_MOST = 20;

interface Victim {
  readonly thread: string;
  /** Servers that start it. */
  readonly kinds: readonly Kind[];
  readonly failures: readonly Failure[];
  /** Upper limit of the points that the thread passes before it fails. */
  readonly points: number;
  /** Matches the accepted errors of the load. Null if nothing may fail. */
  readonly allowed: RegExp | null;
  /** Printed when the thread has failed. */
  readonly says: RegExp;
  /** Number of failures of this thread per server: 1 if the thread is not restarted. */
  readonly perServer: number;
}

/** Failures of a thread that never returns from one call, so that its timers and rejections never run. */
const IN_ONE_CALL: readonly Failure[] = ["throw", "exit"];
const ANY: readonly Failure[] = ["throw", "exit", "reject", "timer"];

/** Matches the answer of each role if a prompt cannot be encoded: vLLM, trtllm-serve, Triton over HTTP and over gRPC. */
const ENCODING_FAILED = new RegExp(
  [
    String.raw`^Error: [\w ]+: 500 \{"error":\{"message":"[^"]*","type":"InternalServerError"`,
    String.raw`^Error: [\w ]+: 500 \{"object":"error","message":"Internal server error","type":"InternalServerError"`,
    String.raw`^Error: [\w ]+: 400 (?:data: )?\{"error":"[^"]*(?:planted in tokens/encoder-worker|encoder thread ended)`,
    String.raw`^Error: \w+ over gRPC: .*`,
  ].join("|"),
);

const VICTIMS: readonly Victim[] = [
  {
    ...{ thread: "metrics/worker", failures: IN_ONE_CALL, points: 30, perServer: FAILURES_OF_A_SERVER },
    kinds: ["vllm", "triton", "trtllm-serve"],
    allowed: /^Error: \/\S*metrics\S* (?:as \w+|\d): 500 Internal Server Error$/,
    says: /scrapes that wait get 500/,
  },
  {
    ...{ thread: "tokens/encoder-worker", failures: ANY, points: 3, perServer: FAILURES_OF_A_SERVER },
    kinds: ["vllm", "vllm with --tokenizer", "triton", "trtllm-serve"],
    allowed: ENCODING_FAILED,
    says: /prompts that were being encoded get 500|a prompt cannot be encoded, and its request fails/,
  },
  {
    ...{ thread: "vllm/reading-worker", failures: ANY, points: 1, perServer: FAILURES_OF_A_SERVER },
    kinds: ["vllm"],
    allowed: /^Error: large body: 500 \{"error":\{"message":"[^"]*","type":"InternalServerError"/,
    says: /bodies that it was reading get 500|failed and is answered with 500/,
  },
  {
    ...{ thread: "truth/worker", failures: ANY, points: 2, perServer: 1 },
    kinds: ["vllm", "triton", "trtllm-serve"],
    allowed: null,
    says: /--truth-log .*the writing thread ended/,
  },
  {
    ...{ thread: "fixtures/fixtures-worker", failures: ANY, points: 1, perServer: 1 },
    kinds: ["vllm", "trtllm-serve"],
    allowed: null,
    says: /changes are no longer seen|cannot be read/,
  },
  {
    ...{ thread: "kv-events/worker", failures: ANY, points: 3, perServer: 1 },
    kinds: ["vllm"],
    allowed: null,
    says: /KV events: the publishing thread ended/,
  },
  {
    ...{ thread: "time/clock-worker", failures: IN_ONE_CALL, points: 100, perServer: ALARMS_MAX },
    kinds: ["vllm", "triton", "trtllm-serve"],
    allowed: null,
    says: /the alarm thread ended, (?:it is started again|timers take its place)/,
  },
  {
    ...{ thread: "loop", failures: ["throw", "reject", "timer"], points: 300, perServer: FAILURES_OF_A_SERVER },
    kinds: ["vllm", "triton", "trtllm-serve", "vllm with --workers"],
    allowed: /./,
    says: /understudy: |planted in loop/,
  },
  {
    ...{ thread: "parent", failures: ["throw", "reject", "timer"], points: 3, perServer: FAILURES_OF_A_SERVER },
    kinds: ["vllm with --workers"],
    allowed: null,
    says: /an error in the parent of the workers/,
  },
];

test("every thread that a server can start is made to fail", () => {
  const scripts = [...new Bun.Glob("**/*.ts").scanSync(SOURCES)].filter((path) => {
    const text = readFileSync(join(SOURCES, path), "utf8");
    return /^declare const self: Worker\b/m.test(text);
  });
  const workers = scripts.map((path) => path.split("/").slice(-2).join("/").replace(/\.ts$/, ""));
  const failing = VICTIMS.map(({ thread }) => thread);
  expect([...workers, "loop", "parent"].sort()).toEqual(failing.sort());
});

describe("a thread that fails under load", () => {
  const cases = VICTIMS.flatMap((victim) => victim.kinds.map((kind) => [victim.thread, kind, victim] as const));
  test.each(sampled("schedules", cases, CASES_OF_A_SAMPLE))(
    "%s of %s",
    async (thread, kind, victim) => {
      const trials = Math.ceil(TRIALS / victim.kinds.length);
      const setup = SETUPS[kind];
      let server = await DelayedServer.start(setup);
      let ends = 0;
      let failures = 0;
      for (let trial = 0; trial < trials; trial++) {
        const drawn = mix(seed, trial);
        const failure = victim.failures[drawn % victim.failures.length]!;
        const exit = await failIn(server, victim, failure, (drawn >>> 8) % (victim.points + 1), trial * LOADS_MOST);
        if (exit !== null) ends++;
        expect(exit === null || (thread === "loop" && exit === ENGINE_BROKE)).toBe(true);
        failures = exit === null ? failures + 1 : victim.perServer;
        if (failures < victim.perServer || trial === trials - 1) continue;
        failures = 0;
        expect([0, ENGINE_BROKE]).toContain(await server.program.stop());
        server = await DelayedServer.start(setup);
      }
      expect([0, ENGINE_BROKE]).toContain(await server.program.stop());
      figure(`${thread} of ${kind} failed`, trials);
      figure(`${thread} of ${kind} ended the server`, ends);
    },
    1_800_000,
  );
});

/**
 * Makes the thread fail, and checks the load during the failure and afterwards. Returns the exit code of the server, or null
 * if it still serves.
 */
async function failIn(
  { program, load }: DelayedServer,
  { thread, allowed, says }: Victim,
  failure: Failure,
  points: number,
  firstLoad: number,
): Promise<number | null> {
  const { page } = program;
  const printed = program.output.length;
  const answers: string[] = [];
  const before = page.failed;
  page.fail(thread, failure, points);
  const ended = program.exited.then(() => ["ended"]);
  for (let at = 1; page.failed === before; at++) {
    expect(at).toBeLessThan(LOADS_MOST);
    const seed = seedOfOneThread(firstLoad + at);
    page.seed = seed;
    const failures = await Promise.race([load.failures(seed), ended, Bun.sleep(HANGS_MS).then(() => null)]);
    expect(failures, `no end of the load; ${failure} after ${points}: ${program.output.slice(printed)}`).not.toBeNull();
    answers.push(...failures!.map(String));
    const unexpected = answers.filter((answer) => allowed === null || !allowed.test(answer));
    expect(unexpected).toEqual([]);
  }
  page.seed = 0;
  // An answer may arrive before the message about a thread's end. A model of a Triton server puts its error into the answer.
  const evidence = () => [program.output.slice(printed), ...answers].join("\n");
  await Promise.race([program.exited, eventually(() => says.test(evidence())).catch(() => {})]);
  expect(evidence(), `${failure} after ${points} points`).toMatch(says);
  // The process exits after its connections close, and processes of --workers exit one after the other.
  const endsMs = ENGINE_ENDS.test(evidence()) ? END_MS : 50;
  const exit = await Promise.race([program.exited, Bun.sleep(endsMs).then(() => null)]);
  if (exit === null) await program.during(load.run(seedOfOneThread(firstLoad)));
  return exit;
}

/**
 * Threads that may fail at the start. A server does not start without its fixtures and KV events, and the loop's thread is the
 * server or its parent.
 */
const NEEDED = ["loop", "parent", "fixtures/fixtures-worker", "kv-events/worker"];
const STARTED = VICTIMS.filter(({ thread }) => !NEEDED.includes(thread));

test.each(sampled("schedules", STARTED, 2))(
  "after $thread has failed at each start and then starts, all requests are answered again",
  async ({ thread, says }) => {
    const page = new Page();
    page.fail(thread, "start", 0);
    const { program, load } = await DelayedServer.start(SETUPS.vllm, page);
    await program.during(load.failures(seedOfOneThread(1)).then(() => {}));
    page.failNone();
    await load.learn();
    await program.during(load.run(seedOfOneThread(1)));
    expect(page.failed).toBeGreaterThan(0);
    expect(program.output).toMatch(says);
    expect(await program.stop()).toBe(0);
  },
  30_000,
);

const TRAP = new URL("./trap-on-abort.ts", import.meta.url).pathname;
const body = JSON.stringify({ model: MODEL, prompt: "a", max_tokens: 1000, ignore_eos: true, stream: true });

/** Starts a stream and disconnects after its first bytes. */
async function leave(url: string): Promise<void> {
  const leaves = new AbortController();
  const headers = { "content-type": "application/json" };
  const stream = await fetch(`${url}/v1/completions`, { method: "POST", headers, body, signal: leaves.signal });
  await stream.body!.getReader().read();
  leaves.abort();
}

test("a core that traps when a client leaves ends the process with 70 and a crash file", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "trap-"));
  const flags = ["serve", "--port", "0", "--timing", "constant:ttft=1ms,itl=50ms"];
  const command = [process.execPath, "--preload", TRAP, main, ...flags];
  const child = Bun.spawn(command, { cwd, stdout: "pipe", stderr: "pipe" });
  let output = "";
  for await (const bytes of child.stdout) {
    output += Buffer.from(bytes).toString();
    if (output.includes("\n  try")) break;
  }
  await leave(/http:\/\/127\.0\.0\.1:\d+/.exec(output)![0]);
  expect(await child.exited).toBe(ENGINE_BROKE);
  expect(await new Response(child.stderr).text()).toContain("planted in the core");
  expect(readdirSync(cwd)).toEqual([`understudy-crash-${child.pid}.json`]);
  rmSync(cwd, { recursive: true });
});

test("in the library a core that traps ends the server, not the process that embeds it", async () => {
  const library = new URL("../../src/embed/bun.ts", import.meta.url).href;
  const program = `
    import { createServer } from ${JSON.stringify(library)};
    const leave = ${leave};
    const body = ${JSON.stringify(body)};
    const server = createServer({ model: ${JSON.stringify(MODEL)}, timing: "constant:ttft=1ms,itl=50ms" });
    await server.ready;
    await leave(server.url);
    console.log(String(await server.ended));`;
  const child = Bun.spawn([process.execPath, "--preload", TRAP, "-e", program], { stdout: "pipe", stderr: "inherit" });
  expect(await new Response(child.stdout).text()).toContain("its engine broke: planted in the core");
  expect(await child.exited).toBe(0);
});
