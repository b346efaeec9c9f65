/**
 * What do disturbed answers cost the others? A thousand clean streams at 20 ms, alone, beside 200 clients whose answers are
 * disturbed, each time in another way, and beside 200 whose answers are not, in turns: how late steps start, against a bare
 * timer process on the same core; and what a disturbed answer takes of the processor, against a clean one.
 *
 *   bun run bench faults [--rounds 3] [--seconds 30] [--seed 1] [--quick] [--realtime] [--no-save]
 */
import net from "node:net";
import { stressCases } from "../src/tools/stress/cases.ts";
import { posted } from "../test/conformance/raw-socket.ts";
import { median } from "./lib/numbers.ts";
import { has, known, number } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { control, cpuOf, type Running, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { complete, doubles, read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { mainRun, runsIn, type Steps } from "./stream/steps.ts";

known(["--rounds", "--seconds", "--seed", "--quick", "--realtime", "--no-save"]);

const CLEAN = 1000;
const FAULTY = 200;
const STEP_MS = 20;
const BEYOND_US = 500;
const CONTROL_US = 1000;
const rounds = number("--rounds", has("--quick") ? 1 : 3);
const seconds = number("--seconds", has("--quick") ? 8 : 30);
/** The host's compilers are done with most of it then, of disturbed answers too. */
const WARM_S = has("--quick") ? 6 : 20;
/** A longer pause in the log of steps parts what is measured. */
const PAUSE_MS = 1500;
/** A disturbed answer has so many tokens, and its client waits so long for it; the next one is asked for no sooner. */
const TOKENS = 100;
const PATIENCE_MS = 6000;
const LEAST_MS = TOKENS * STEP_MS;

const logged = `${root}build/bench/fault-steps.f64`;
/** Every fault in each of its ways, but those that reach other requests: what they break is not what is measured. */
const plans = stressCases([], number("--seed", 1))
  .filter(({ plan }) => plan.faults.every(({ row }) => row.reaches === "answer"))
  .map(({ line }) => line);

/** Who asks beside the streams. */
type Beside = "nobody" | "clean" | "disturbed";
const BESIDE: readonly Beside[] = ["nobody", "clean", "disturbed"];
const NAMES: Readonly<Record<Beside, string>> = {
  nobody: "nobody",
  clean: `${FAULTY} clean`,
  disturbed: `${FAULTY} disturbed`,
};

/** Clients of such answers, until `over` is set; how many were answered, to their end or not. */
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

interface Seen {
  readonly beside: Beside;
  /** Answers of the other clients. */
  readonly answered: number;
  /** Percent of a core that the server takes. */
  readonly cpuPercent: number;
}

async function run({ port, pid }: Running, beside: Beside, forS: number): Promise<Seen> {
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
const seen: Seen[] = [];
let faults = 0;
try {
  progress("faults: warming up");
  await run(server, "disturbed", WARM_S);
  for (let round = 0; round < rounds; round++) {
    // Whichever comes first finds a colder server.
    for (const beside of round % 2 === 0 ? BESIDE : BESIDE.toReversed()) {
      progress(`faults: round ${round + 1} of ${rounds}, beside ${NAMES[beside]}`);
      seen.push(await run(server, beside, seconds));
    }
  }
  faults = (await Page.of(server.port)).value("understudy_faults_total");
} finally {
  await server.stop();
}
progress("faults: control");
const after = await control(SERVER_CORE, STEP_MS * 1000, seconds / 4);

const runs = runsIn(doubles(logged)).slice(-seen.length);
const measured = seen.map((one, at): Seen & { steps: Steps } => ({ ...one, steps: mainRun(runs[at]!) }));
table(`${CLEAN} streams at ${STEP_MS} ms beside others; steps start late, µs`, [
  ["beside", "steps", "p50", "p99", "max", "write p50", "CPU %", "answered"],
  ...measured.map(({ beside, steps, cpuPercent, answered }) => [
    NAMES[beside],
    ...[steps.steps, steps.lateP50Us, steps.lateP99Us, steps.lateMaxUs, steps.writeP50Us, cpuPercent, answered],
  ]),
  ...[before, after].map((one) => ["control", one.wakes, one.p50Us, one.p99Us, one.maxUs]),
]);
const medianOf = (beside: Beside, figure: (one: (typeof measured)[number]) => number) =>
  median(measured.filter((one) => one.beside === beside).map(figure));
const p99Of = (beside: Beside) => medianOf(beside, ({ steps }) => steps.lateP99Us);
/** Percent of a core that an answer a second takes. */
const answerOf = (beside: Beside) =>
  (medianOf(beside, ({ cpuPercent }) => cpuPercent) - medianOf("nobody", ({ cpuPercent }) => cpuPercent)) /
  medianOf(beside, ({ answered }) => answered / seconds);
const beyondUs = p99Of("disturbed") - p99Of("nobody");
const cpuRatio = answerOf("disturbed") / answerOf("clean");
const isVoid = [before, after].some(({ p99Us }) => p99Us > CONTROL_US);
console.log(
  `  ${bar("late p99 beside disturbed, beyond beside nobody, median of the rounds", beyondUs, BEYOND_US, "µs")}`,
);
console.log(`  a disturbed answer takes ${cpuRatio.toFixed(2)} times the processor time of a clean one`);
console.log(`  ${plans.length} plans in turn, each with seeds of their own; understudy_faults_total ${faults}`);
if (isVoid) console.log("  VOID: the control itself was late; the machine is too busy");
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
