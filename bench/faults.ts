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
import { bars, has, note, options, progress, root, save, table } from "./lib/bench.ts";
import { CHAT_PATH, chat, complete, doubles, Page, read, sameChat } from "./lib/client.ts";
import { median } from "./lib/numbers.ts";
import { betweenControls, inTurns, noteVoid, serve, withCpu } from "./lib/servers.ts";
import { mainRun, runsIn } from "./stream/steps.ts";

const [defaults, WARM_S] = has("--quick") ? [{ rounds: 1, seconds: 8 }, 6] : [{ rounds: 3, seconds: 30 }, 20];
const { rounds, seconds, seed } = options({ ...defaults, seed: 1, quick: false }, ["--realtime"]);

const CLEAN = 1000;
const FAULTY = 200;
const STEP_MS = 20;
const BEYOND_US = 500;
/** Pause after each run, which separates the runs in the log of steps. */
const PAUSE_MS = 1500;
/** Tokens of an additional client's answer. The client drops an answer that has not ended after `PATIENCE_MS`. */
const TOKENS = 100;
const PATIENCE_MS = 6000;
/** Shortest time between two requests of one additional client. */
const LEAST_MS = TOKENS * STEP_MS;

const logged = `${root}build/bench/fault-steps.f64`;
/** Plans with every fault in each of its variants, except faults that affect other requests on purpose. */
const plans = stressCases([], seed)
  .filter(({ plan }) => plan.faults.every(({ row }) => row.reaches === "answer"))
  .map(({ line }) => line);

/** Runs 200 additional clients until the result is called, which returns the number of complete and dropped answers. */
function otherClients(port: number, areDisturbed: boolean): () => Promise<number> {
  let over = false;
  let answered = 0;
  const ask = (order: object) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const body = { ...chat("Tell me about the weather.", TOKENS), ...order };
    const fromMs = performance.now();
    const socket = net.connect(port, "127.0.0.1").resume();
    const watch = setInterval(() => (over || performance.now() > fromMs + PATIENCE_MS) && socket.destroy(), 100);
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(watch);
      resolve();
    });
    socket.write(posted(CHAT_PATH, body, ["Connection: close"]));
    return promise;
  };
  const client = async (_: unknown, at: number) => {
    await Bun.sleep((LEAST_MS * at) / FAULTY);
    for (let turn = at; !over; turn += FAULTY) {
      const pause = Bun.sleep(LEAST_MS);
      await ask(areDisturbed ? { understudy: { fault: plans[turn % plans.length]! } } : {});
      answered++;
      if (!over) await pause;
    }
  };
  const all = Promise.all(Array.from({ length: FAULTY }, client));
  return async () => {
    over = true;
    await all;
    return answered;
  };
}

/** The additional clients. */
const OTHER_LOADS = { nobody: "nobody", clean: `${FAULTY} clean`, disturbed: `${FAULTY} disturbed` };
type OtherLoad = keyof typeof OTHER_LOADS;

/** The numbers of one run: answers to the additional clients, and CPU time of the server in percent of a core. */
interface RunResult {
  readonly beside: OtherLoad;
  readonly answered: number;
  readonly cpuPercent: number;
}

async function measureAll() {
  await using server = await serve(
    [
      ...["--timing", `constant:ttft=100ms,itl=${STEP_MS}ms`, "--max-num-seqs", String(CLEAN + FAULTY + 64)],
      ...["--max-model-len", "131072", "--num-gpu-blocks-override", "524288", "--disable-uvicorn-access-log"],
    ],
    { env: { UNDERSTUDY_STEP_LOG: logged } },
  );
  const { port } = server;
  /** Runs in the order of the log of steps. */
  const results: RunResult[] = [];
  const run = async (beside: OtherLoad, forS = seconds) => {
    const endClients = beside === "nobody" ? null : otherClients(port, beside === "disturbed");
    const beganMs = performance.now();
    const body = sameChat(Math.round((forS * 1000) / STEP_MS));
    const streamed = async () => complete(await read({ port, body, streams: CLEAN, together: true }), CLEAN);
    const { us } = await withCpu(server, streamed);
    const cpuPercent = us / ((performance.now() - beganMs) * 10);
    const answered = (await endClients?.()) ?? 0;
    await Bun.sleep(PAUSE_MS);
    results.push({ beside, answered, cpuPercent });
  };
  progress("faults: warming up");
  await run("disturbed", WARM_S);
  await inTurns("faults", rounds, {
    nobody: () => run("nobody"),
    clean: () => run("clean"),
    disturbed: () => run("disturbed"),
  });
  const faults = (await Page.of(port)).value("understudy_faults_total");
  return { faults, results: results.slice(1) };
}

const { result, before, after, isVoid } = await betweenControls("faults", STEP_MS * 1000, seconds / 4, measureAll);
const { faults, results } = result;
const logs = runsIn(doubles(logged)).slice(-results.length);
const measured = results.map((each, i) => ({ ...each, steps: mainRun(logs[i]!) }));
table(`${CLEAN} streams at ${STEP_MS} ms with other clients; lateness of steps, µs`, [
  ["other clients", "steps", "p50", "p99", "max", "write p50", "CPU %", "answered"],
  ...measured.map(({ beside, steps, cpuPercent, answered }) => [
    OTHER_LOADS[beside],
    ...[steps.steps, steps.lateP50Us, steps.lateP99Us, steps.lateMaxUs, steps.writeP50Us, cpuPercent, answered],
  ]),
  ...[before, after].map((idle) => ["control", idle.wakes, idle.p50Us, idle.p99Us, idle.maxUs]),
]);
const medianOf = (beside: OtherLoad, figure: (result: (typeof measured)[number]) => number) =>
  median(measured.filter((each) => each.beside === beside).map(figure));
const p99Of = (beside: OtherLoad) => medianOf(beside, ({ steps }) => steps.lateP99Us);
const cpuOf = (beside: OtherLoad) => medianOf(beside, ({ cpuPercent }) => cpuPercent);
/** Returns the CPU cost of one additional answer per second, in percent of a core. */
const answerOf = (beside: OtherLoad) =>
  (cpuOf(beside) - cpuOf("nobody")) / medianOf(beside, ({ answered }) => answered / seconds);
const beyondUs = p99Of("disturbed") - p99Of("nobody");
const cpuRatio = answerOf("disturbed") / answerOf("clean");
const held = bars(["lateness p99 with disturbed clients, minus that with nobody, median", beyondUs, BEYOND_US, "µs"]);
note(`a disturbed answer takes ${cpuRatio.toFixed(2)} times the processor time of a clean one`);
note(`${plans.length} plans in turn, each with its own seed; understudy_faults_total ${faults}`);
noteVoid(isVoid);
save("faults", {
  ...{ rounds, seconds, clean: CLEAN, faulty: FAULTY, beyondUs, cpuRatio, isVoid, faults, measured, before, after },
});
if (!isVoid && !held) process.exitCode = 1;
