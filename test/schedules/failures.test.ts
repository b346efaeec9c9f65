/**
 * Each thread of a server is made to fail at a random time under load. Requests fail as docs/crash.md says, the rest is as
 * without the failure, and afterwards everything is answered again.
 */
import { describe, expect, test } from "bun:test";
import { figure, sampled, seed, sized } from "../size.ts";
import { WHOLE_LOAD_EVERY } from "./load.ts";
import { type Failure, mix, Page } from "./page.ts";
import { DelayedServer } from "./under-delays.ts";

const TRIALS = sized("schedules", { sample: 1, whole: 200 });
const FLAGS = ["--enable-lora"];
const ENGINE_BROKE = 70;
/** Loads in which a failure that was ordered must have happened. */
const LOADS_MOST = 20;

interface Victim {
  readonly thread: string;
  readonly failures: readonly Failure[];
  /** A failure happens after up to so many points of the thread. */
  readonly points: number;
  /** Parts of the load that may fail, and how; null: none. */
  readonly allowed: RegExp | null;
  /** Printed when the thread has failed. */
  readonly says: RegExp;
  /** The thread is started again however often it fails. */
  readonly restarts: boolean;
}

/** A thread that is always in one call never gets to its timers and rejections. */
const IN_ONE_CALL: readonly Failure[] = ["throw", "exit"];
const ANY: readonly Failure[] = ["throw", "exit", "reject", "timer"];

const VICTIMS: readonly Victim[] = [
  {
    ...{ thread: "metrics/worker", failures: IN_ONE_CALL, points: 30, restarts: true },
    allowed: /^Error: \/metrics\S* as \w+: 500 Internal Server Error$/,
    says: /scrapes that wait get 500/,
  },
  {
    ...{ thread: "content/encoder-worker", failures: ANY, points: 3, restarts: true },
    allowed: /^Error: [\w ]+: 500 \{"error":\{"message":"[^"]*","type":"InternalServerError"/,
    says: /prompts that were being encoded get 500|failed and is answered with 500/,
  },
  {
    ...{ thread: "roles/reading-worker", failures: ANY, points: 1, restarts: true },
    allowed: /^Error: large body: 500 \{"error":\{"message":"[^"]*","type":"InternalServerError"/,
    says: /bodies that it was reading get 500|failed and is answered with 500/,
  },
  {
    ...{ thread: "truth/worker", failures: ANY, points: 2, restarts: false },
    allowed: null,
    says: /--truth-log .*the writing thread ended/,
  },
  {
    ...{ thread: "fixtures/fixtures-worker", failures: ANY, points: 1, restarts: false },
    allowed: null,
    says: /changes are not seen any more|cannot be read/,
  },
  {
    ...{ thread: "host/clock-worker", failures: IN_ONE_CALL, points: 100, restarts: false },
    allowed: null,
    says: /the alarm thread ended, it is started again/,
  },
  {
    ...{ thread: "loop", failures: ["throw", "reject", "timer"], points: 300, restarts: true },
    allowed: /./,
    says: /understudy/,
  },
];

describe("a thread that fails under load", () => {
  test.each(VICTIMS.map((victim) => [victim.thread, victim] as const))(
    "%s",
    async (thread, victim) => {
      let server = await DelayedServer.start(FLAGS);
      let ends = 0;
      for (let trial = 0; trial < TRIALS; trial++) {
        const drawn = mix(seed, trial);
        const failure = victim.failures[drawn % victim.failures.length]!;
        const exit = await failIn(server, victim, failure, (drawn >>> 8) % (victim.points + 1), trial * LOADS_MOST);
        if (exit !== null) ends++;
        expect(exit === null || (thread === "loop" && exit === ENGINE_BROKE)).toBe(true);
        if ((exit === null && victim.restarts) || trial === TRIALS - 1) continue;
        expect([0, ENGINE_BROKE]).toContain(await server.program.stop());
        server = await DelayedServer.start(FLAGS);
      }
      expect([0, ENGINE_BROKE]).toContain(await server.program.stop());
      figure(`${thread} failed`, TRIALS);
      figure(`${thread} ended the server`, ends);
    },
    1_800_000,
  );
});

/** Has the thread fail, and checks the load then and afterwards. Returns the exit code of the server; null: it serves. */
async function failIn(
  { program, load }: DelayedServer,
  { thread, allowed, says }: Victim,
  failure: Failure,
  points: number,
  firstLoad: number,
): Promise<number | null> {
  const { page } = program;
  const printed = program.output.length;
  const before = page.failed;
  page.fail(thread, failure, points);
  const ended = program.exited.then(() => ["ended"]);
  for (let at = 1; page.failed === before; at++) {
    expect(at).toBeLessThan(LOADS_MOST);
    const seed = (firstLoad + at) * WHOLE_LOAD_EVERY;
    page.seed = seed;
    const failures = await Promise.race([load.failures(seed), ended]);
    const unexpected = failures.map(String).filter((what) => allowed === null || !allowed.test(what));
    expect(unexpected).toEqual([]);
  }
  page.seed = 0;
  // An answer may come before the news of a thread's end, and the end of the process after that of its connections.
  const exit = await Promise.race([program.exited, Bun.sleep(200).then(() => null)]);
  expect(program.output.slice(printed)).toMatch(says);
  if (exit === null) await program.during(load.run(firstLoad * WHOLE_LOAD_EVERY));
  return exit;
}

/** Without its fixtures a server does not start, and the loop's thread is the server. */
const STARTED = VICTIMS.filter(({ thread }) => !["loop", "fixtures/fixtures-worker"].includes(thread));

test.each(sampled("schedules", STARTED, 2))(
  "$thread fails whenever it starts, then no more: everything is answered again",
  async ({ thread, says }) => {
    const page = new Page();
    page.fail(thread, "start", 0);
    const { program, load } = await DelayedServer.start(FLAGS, page);
    await program.during(load.failures(WHOLE_LOAD_EVERY).then(() => {}));
    page.failNone();
    await load.learn();
    await program.during(load.run(WHOLE_LOAD_EVERY));
    expect(page.failed).toBeGreaterThan(0);
    expect(program.output).toMatch(says);
    expect(await program.stop()).toBe(0);
  },
  30_000,
);
