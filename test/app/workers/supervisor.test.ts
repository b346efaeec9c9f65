/**
 * Tests that the supervisor restarts dead workers, gives up on workers that die repeatedly, and leaves no process behind. The
 * workers are stand-ins.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ledger } from "../../../src/app/workers/ledger.ts";
import type { WorkerSetup } from "../../../src/app/workers/messages.ts";
import { LONGEST_DELAY_US, Restarts, SHORT_LIFE_US, SHORT_LIVES_MAX } from "../../../src/app/workers/restarts.ts";
import { type Death, StartRefused, Supervisor } from "../../../src/app/workers/supervisor.ts";
import { type Clock, WallClock } from "../../../src/base/clock.ts";
import { OwnPage, openPage } from "../../../src/metrics/rows/shared.ts";
import type { DiedLine } from "../../../src/truth/schema.ts";
import { closeDead, fileOfWorker } from "../../../src/truth/worker-file.ts";
import { emptyEngine, emptySnapshot, heldOf, setup } from "../../metrics/snapshots.ts";
import { type Behaviour, seedOf } from "./stand-in.ts";

setDefaultTimeout(30_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-workers-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A clock that fires at once, and records the requested delays. */
class HastyClock extends WallClock {
  readonly waitedUs: number[] = [];
  override at(dueUs: number, wake: () => void) {
    this.waitedUs.push(dueUs - this.now());
    return super.at(this.now(), wake);
  }
}

/**
 * Makes a supervisor whose workers run `stand-in.ts`. `behaviours`: behaviour of a worker after each of its starts, in order.
 * Further starts repeat the last one.
 */
function supervise(workers: number, behaviours: readonly Behaviour[], clock: Clock = new HastyClock()) {
  const lines: string[] = [];
  const retired: (readonly [number, Death])[] = [];
  const lives = new Map<number, number>();
  const paused: boolean[] = [];
  const supervisor = new Supervisor({
    workers,
    clock,
    command: [process.execPath, ...process.execArgv, new URL("./stand-in.ts", import.meta.url).pathname],
    say: (line) => lines.push(line.replace(/process \d+/, "process N")),
    setup: (index, isPaused) => {
      const life = lives.get(index) ?? 0;
      lives.set(index, life + 1);
      paused.push(isPaused);
      const seed = seedOf(behaviours[Math.min(life, behaviours.length - 1)]!);
      return { index, config: { engine: { seed } } } as unknown as WorkerSetup;
    },
    retire: (index, death) => {
      retired.push([index, death]);
      return "";
    },
  });
  return { supervisor, lines, retired, lives };
}
const lives = (pid: number | null) => {
  try {
    process.kill(pid!, 0);
    return true;
  } catch {
    return false;
  }
};

describe("the supervisor", () => {
  test("start() resolves when all workers listen, and end() ends them in order", async () => {
    const clock = new WallClock();
    const { supervisor, lines, retired } = supervise(3, ["serves"], clock);
    expect(await supervisor.start()).toBe("http://127.0.0.1:1");
    const pids = [...supervisor.pids];
    expect(pids.filter(lives)).toHaveLength(3);
    supervisor.end(1);
    expect(await supervisor.exited).toBe(0);
    expect([supervisor.open, lines, pids.filter(lives)]).toEqual([9, [], []]);
    expect(retired.map(([, death]) => death)).toEqual(Array(3).fill({ exitCode: 0, signal: null, orderly: true }));
    clock.close();
  });

  test("if a worker refuses to start, the start fails with its reason and no worker is left", async () => {
    const { supervisor } = supervise(2, ["refuses"]);
    const reason = await supervisor.start().catch((error) => error);
    expect(reason).toBeInstanceOf(StartRefused);
    expect([reason.message, reason.code]).toEqual(["nobody may listen there", "EADDRINUSE"]);
    expect(supervisor.pids).toEqual([null, null]);
  });

  test("a worker that dies during its first start makes the start fail", async () => {
    const { supervisor } = supervise(2, ["dies at the start"]);
    expect(supervisor.start()).rejects.toThrow(/^worker \d ended with 1 while it started$/);
    await supervisor.exited;
    expect(supervisor.pids).toEqual([null, null]);
  });

  test("a killed worker is restarted", async () => {
    const { supervisor, lines, retired, lives: started } = supervise(2, ["serves"]);
    await supervisor.start();
    const [killed] = supervisor.pids;
    process.kill(killed!, "SIGKILL");
    while (supervisor.pids[0] === killed || supervisor.pids[0] === null) await Bun.sleep(5);
    expect(lines).toEqual(["worker 0 (process N) was killed by SIGKILL; started anew in 0.1 s"]);
    expect(retired).toEqual([[0, { exitCode: null, signal: "SIGKILL", orderly: false }]]);
    expect(started.get(0)).toBe(2);
    supervisor.end(1);
    expect(await supervisor.exited).toBe(0);
  });

  test("a worker that dies repeatedly is restarted with growing delays, then the server exits with code 1", async () => {
    const clock = new HastyClock();
    const { supervisor, lines } = supervise(2, ["serves", "dies at once"], clock);
    await supervisor.start();
    process.kill(supervisor.pids[1]!, "SIGKILL");
    expect(await supervisor.exited).toBe(1);
    expect(lines).toHaveLength(SHORT_LIVES_MAX);
    expect(lines.at(-1)).toBe("worker 1 (process N) ended with 1; it does not stay, so the server ends");
    const delays = clock.waitedUs.slice(0, SHORT_LIVES_MAX - 1).map((us) => Math.round(us / 1e5) / 10);
    expect(delays).toEqual([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5]);
  });

  test("a worker whose core trapped makes the server exit with code 70", async () => {
    const { supervisor, lines } = supervise(2, ["serves", "traps"]);
    await supervisor.start();
    process.kill(supervisor.pids[0]!, "SIGKILL");
    expect(await supervisor.exited).toBe(70);
    expect(lines.at(-1)).toBe("worker 0 (process N) ended with 70; its core trapped, so the server ends");
  });

  test("a worker that ignores the order to end is killed", async () => {
    const { supervisor, retired } = supervise(1, ["is deaf"]);
    await supervisor.start();
    supervisor.end(0);
    expect(await supervisor.exited).toBe(0);
    expect(retired).toEqual([[0, { exitCode: null, signal: "SIGKILL", orderly: false }]]);
  });
});

test("the delay of a restart doubles with each short life up to a limit, and resets after a long life", () => {
  const restarts = new Restarts();
  const delays = Array.from({ length: SHORT_LIVES_MAX }, () => restarts.died(0));
  expect(delays.at(-1)).toBeNull();
  const finite = delays.slice(0, -1) as number[];
  expect(finite.every((delay, i) => delay >= (finite[i - 1] ?? 0) && delay <= LONGEST_DELAY_US)).toBe(true);
  const other = new Restarts();
  for (let i = 0; i < 5 * SHORT_LIVES_MAX; i++) {
    expect(other.died(i % 2 === 0 ? 0 : SHORT_LIFE_US)).toBe(finite[0]!);
  }
});

describe("the truth log of a dead worker", () => {
  test.each([
    ["truth.jsonl", "truth.w2.jsonl"],
    ["truth", "truth.w2"],
    ["logs.d/truth.log.jsonl", "logs.d/truth.log.w2.jsonl"],
  ])("the log %s of worker 2 is %s", (file, name) => {
    expect(fileOfWorker(file, 2)).toBe(name);
  });

  const died: DiedLine = {
    type: "died",
    worker: 0,
    exitCode: null,
    signal: "SIGKILL",
    engines: [],
    outcomes: { stop: 0, length: 0, abort: 0, refused: 0, error: 0 },
  };
  test.each([
    ["whole lines stay", '{"a":1}\n{"b":2}\n', '{"a":1}\n{"b":2}\n'],
    ["an incomplete last line is removed", '{"a":1}\n{"b":', '{"a":1}\n'],
    ["only an incomplete line", '{"a', ""],
    ["an empty file", "", ""],
    ["a long file", `${"x".repeat(3 << 20)}\n{"b":2}\n{"c`, `${"x".repeat(3 << 20)}\n{"b":2}\n`],
  ])("%s", (_, before, kept) => {
    const file = join(folder, "dead.jsonl");
    writeFileSync(file, before);
    closeDead(file, died);
    expect(readFileSync(file, "utf8") === `${kept}${JSON.stringify(died)}\n`).toBe(true);
  });

  test("its last line has the counts of the metrics for this life, without earlier lives", () => {
    const pages = { shape: setup.shape, refreshes: setup.refreshes };
    const place = mkdtempSync(join(folder, "ledger-"));
    const log = join(place, "truth.jsonl");
    const ledger = new Ledger(place, 2, pages, () => log);
    const live = (steps: number) => {
      const engine = {
        ...emptyEngine(),
        steps,
        finished: [1, 2, 3, 0, 0] as const,
        running: 4,
        waiting: 5,
        deferred: 1,
      };
      const own = new OwnPage(openPage(ledger.pages, 1), ledger.pages);
      own.write(heldOf(emptySnapshot([{ ...engine, generationTokens: 10 * steps }])));
    };
    for (const steps of [100, 7]) {
      writeFileSync(log, "");
      live(steps);
      const lost = ledger.retire(1, { exitCode: null, signal: "SIGKILL", orderly: false });
      expect(lost).toBe("; 4 running and 6 waiting requests died with it");
      expect(JSON.parse(readFileSync(log, "utf8"))).toMatchObject({
        type: "died",
        worker: 1,
        engines: [
          {
            engine: 1,
            steps,
            outputTokens: 10 * steps,
            finished: { stop: 1, length: 2, abort: 3, error: 0, repetition: 0 },
            running: 4,
            waiting: 6,
          },
        ],
      });
    }
    expect(ledger.retire(0, { exitCode: 0, signal: null, orderly: true })).toBe("");
    rmSync(log);
    live(1);
    expect(ledger.retire(1, { exitCode: 1, signal: null, orderly: false })).toEndWith(
      `its truth log ${log} has no last line (ENOENT)`,
    );
  });
});
