/**
 * Measures how much disturbed answers cost other clients. A thousand clean streams at 20 ms run in three settings in turn:
 * alone, together with 200 clients whose answers are disturbed in changing ways, and with 200 undisturbed clients. The bench
 * reports how late steps start, next to a bare timer process on the same core, and the CPU time of a disturbed and a clean
 * answer.
 *
 *   bun run bench faults [--rounds 3] [--seconds 30] [--seed 1] [--quick] [--realtime] [--no-save]
 */
import net from "node:net";
import { stressCases } from "../src/tools/stress/cases.ts";
import { posted } from "../test/conformance/raw-socket.ts";
import { median } from "./lib/numbers.ts";
import { has, number, rejectUnknown } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { control, cpuOf, type RunningServer, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { complete, doubles, read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { mainRun, runsIn, type Steps } from "./stream/steps.ts";

rejectUnknown(["--rounds", "--seconds", "--seed", "--quick", "--realtime", "--no-save"]);

const CLEAN = 1000;
const FAULTY = 200;
const STEP_MS = 20;
const BEYOND_US = 500;
const CONTROL_US = 1000;
const rounds = number("--rounds", has("--quick") ? 1 : 3);
const seconds = number("--seconds", has("--quick") ? 8 : 30);
/** Seconds of warm-up, in which Bun compiles most of the code that clean and disturbed answers run. */
const WARM_S = has("--quick") ? 6 : 20;
/** Pause after each run, which separates the runs in the log of steps. */
const PAUSE_MS = 1500;
/** Tokens of an additional client's answer. The client drops an answer that has not ended after `PATIENCE_MS`. */
const TOKENS = 100;
const PATIENCE_MS = 6000;
/** Shortest time between two requests of one additional client. */
const LEAST_MS = TOKENS * STEP_MS;

const logged = `${root}build/bench/fault-steps.f64`;
/** Plans with every fault in each of its variants, except faults that affect other requests on purpose. */
const plans = stressCases([], number("--seed", 1))
  .filter(({ plan }) => plan.faults.every(({ row }) => row.reaches === "answer"))
  .map(({ line }) => line);

/** Kind of the additional clients. */
type OtherLoad = "nobody" | "clean" | "disturbed";
const OTHER_LOADS: readonly OtherLoad[] = ["nobody", "clean", "disturbed"];
const NAMES: Readonly<Record<OtherLoad, string>> = {
  nobody: "nobody",
  clean: `${FAULTY} clean`,
  disturbed: `${FAULTY} disturbed`,
};

/** The 200 additional clients. They send requests until `end()`, which returns the number of complete and dropped answers. */
class OtherClients {
  over = false;
  answered = 0;
  readonly #all: Promise<void>[];

  constructor(
    readonly port: number,
    readonly areDisturbed: boolean,
  ) {
    this.#all = Array.from({ length: FAULTY }, (_, at) => this.#run(at));
  }

  async end(): Promise<number> {
    this.over = true;
    await Promise.all(this.#all);
    return this.answered;
  }

  async #run(at: number): Promise<void> {
    await Bun.sleep((LEAST_MS * at) / FAULTY);
    for (let turn = at; !this.over; turn += FAULTY) {
      const pause = Bun.sleep(LEAST_MS);
      await this.#ask(this.areDisturbed ? { understudy: { fault: plans[turn % plans.length]! } } : {});
      this.answered++;
      if (!this.over) await pause;
    }
  }

  #ask(order: object): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const body = { ...chat("Tell me about the weather.", TOKENS), ...order };
    const socket = net.connect(this.port, "127.0.0.1");
    const left = setTimeout(() => socket.destroy(), PATIENCE_MS);
    const watch = setInterval(() => this.over && socket.destroy(), 100);
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(left);
      clearInterval(watch);
      resolve();
    });
    socket.resume();
    socket.write(posted("/v1/chat/completions", body, ["Connection: close"]));
    return promise;
  }
}

const busyUs = (pid: number) => {
  const { userUs, systemUs } = cpuOf(pid);
  return userUs + systemUs;
};

/** The numbers of one run. */
interface RunResult {
  readonly beside: OtherLoad;
  /** Number of answers to the additional clients. */
  readonly answered: number;
  /** CPU time of the server, in percent of a core. */
  readonly cpuPercent: number;
}

async function run({ port, pid }: RunningServer, beside: OtherLoad, forS: number): Promise<RunResult> {
  const clients = beside === "nobody" ? null : new OtherClients(port, beside === "disturbed");
  const beganMs = performance.now();
  const cpuUs = busyUs(pid);
  const body = chat("Tell me about the weather.", Math.round((forS * 1000) / STEP_MS), { seed: 1 });
  complete(await read({ port, body, streams: CLEAN, together: true }), CLEAN);
  const cpuPercent = (busyUs(pid) - cpuUs) / ((performance.now() - beganMs) * 10);
  const answered = (await clients?.end()) ?? 0;
  await Bun.sleep(PAUSE_MS);
  return { beside, answered, cpuPercent };
}

const flags = [
  ...["--timing", `constant:ttft=100ms,itl=${STEP_MS}ms`, "--max-num-seqs", String(CLEAN + FAULTY + 64)],
  ...["--max-model-len", "131072", "--num-gpu-blocks-override", "524288", "--disable-uvicorn-access-log"],
];
progress("faults: control");
const before = await control(SERVER_CORE, STEP_MS * 1000, seconds / 4);
const server = await start(serverCommand(flags), { core: SERVER_CORE, env: { UNDERSTUDY_STEP_LOG: logged } });
const results: RunResult[] = [];
let faults = 0;
try {
  progress("faults: warming up");
  await run(server, "disturbed", WARM_S);
  for (let round = 0; round < rounds; round++) {
    // The order alternates, because the first setting of a round runs on a colder server.
    for (const beside of round % 2 === 0 ? OTHER_LOADS : OTHER_LOADS.toReversed()) {
      progress(`faults: round ${round + 1} of ${rounds}, with ${NAMES[beside]}`);
      results.push(await run(server, beside, seconds));
    }
  }
  faults = (await Page.of(server.port)).value("understudy_faults_total");
} finally {
  await server.stop();
}
progress("faults: control");
const after = await control(SERVER_CORE, STEP_MS * 1000, seconds / 4);

const runs = runsIn(doubles(logged)).slice(-results.length);
const measured = results.map((result, i): RunResult & { steps: Steps } => ({ ...result, steps: mainRun(runs[i]!) }));
table(`${CLEAN} streams at ${STEP_MS} ms with other clients; lateness of steps, µs`, [
  ["other clients", "steps", "p50", "p99", "max", "write p50", "CPU %", "answered"],
  ...measured.map(({ beside, steps, cpuPercent, answered }) => [
    NAMES[beside],
    ...[steps.steps, steps.lateP50Us, steps.lateP99Us, steps.lateMaxUs, steps.writeP50Us, cpuPercent, answered],
  ]),
  ...[before, after].map((idle) => ["control", idle.wakes, idle.p50Us, idle.p99Us, idle.maxUs]),
]);
const medianOf = (beside: OtherLoad, figure: (result: (typeof measured)[number]) => number) =>
  median(measured.filter((result) => result.beside === beside).map(figure));
const p99Of = (beside: OtherLoad) => medianOf(beside, ({ steps }) => steps.lateP99Us);
/** Returns the CPU cost of one additional answer per second, in percent of a core. */
const answerOf = (beside: OtherLoad) =>
  (medianOf(beside, ({ cpuPercent }) => cpuPercent) - medianOf("nobody", ({ cpuPercent }) => cpuPercent)) /
  medianOf(beside, ({ answered }) => answered / seconds);
const beyondUs = p99Of("disturbed") - p99Of("nobody");
const cpuRatio = answerOf("disturbed") / answerOf("clean");
const isVoid = [before, after].some(({ p99Us }) => p99Us > CONTROL_US);
console.log(
  `  ${bar("lateness p99 with disturbed clients, minus that with nobody, median", beyondUs, BEYOND_US, "µs")}`,
);
console.log(`  a disturbed answer takes ${cpuRatio.toFixed(2)} times the processor time of a clean one`);
console.log(`  ${plans.length} plans in turn, each with its own seed; understudy_faults_total ${faults}`);
if (isVoid) console.log("  VOID: the bare timer process was late, so the machine is too busy");
save("faults", {
  rounds,
  seconds,
  clean: CLEAN,
  faulty: FAULTY,
  beyondUs,
  cpuRatio,
  isVoid,
  faults,
  measured,
  before,
  after,
});
if (!isVoid && beyondUs > BEYOND_US) process.exitCode = 1;
