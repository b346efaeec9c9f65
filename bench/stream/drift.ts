/**
 * Measures whether the times of tokens drift away from the machine's clock, with 100 streams for ten minutes. The server's log
 * shows whether steps remain on their grid, and whether they start later at the end than at the beginning.
 *
 * The client's clock shows by how much a stream lasts longer than planned, minus the same of a short stream. The time of the last
 * token does not count, because the end of all streams delays it.
 */
import { median } from "../lib/numbers.ts";
import { has } from "../lib/options.ts";
import { type ControlResult, control, SERVER_CORE, serverCommand, start } from "../lib/process.ts";
import { chat } from "../lib/prompt.ts";
import { complete, doubles, read, stampsOf } from "../lib/reader.ts";
import { bar, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { byCause, cursor, lateSteps, showCauses } from "./causes.ts";
import { runOf } from "./steps.ts";

const STREAMS = 100;
const PERIOD_US = 20_000;
const SECONDS = { whole: 600, quick: 30, short: 5 };
/** Share of the run that counts as its beginning, and as its end. */
const SHARE = 0.05;
const BAR = { driftUs: 1000, controlP99Us: 1000 };

const folder = `${root}build/bench`;
const logged = `${folder}/steps.f64`;
const stamps = `${folder}/stamps.f64`;

const tokensOf = (seconds: number) => Math.round((seconds * 1e6) / PERIOD_US);

export async function drift() {
  const seconds = has("--quick") ? SECONDS.quick : SECONDS.whole;
  const tokens = tokensOf(seconds);
  progress(`drift: control`);
  const before = await control(SERVER_CORE, PERIOD_US, seconds / 10);
  progress(`drift: ${seconds} s`);
  const timing = `constant:ttft=100ms,itl=${PERIOD_US / 1000}ms`;
  const flags = ["--timing", timing, "--max-num-seqs", String(STREAMS), "--max-model-len", "131072"];
  const command = serverCommand([...flags, "--num-gpu-blocks-override", "524288"]);
  const server = await start(command, { core: SERVER_CORE, env: { UNDERSTUDY_STEP_LOG: logged } });
  const stream = async (tokens: number) => {
    const body = chat("Tell me about the weather.", tokens, { seed: 1 });
    const options = { port: server.port, body, streams: STREAMS, together: true, stamps, stampsMost: tokens };
    complete(await read(options), STREAMS);
    // The first event has the role, and each further event has a token.
    return median(stampsOf(stamps).map((us) => us[tokens - 1]! - us[1]! - (tokens - 2) * PERIOD_US));
  };
  let late: Awaited<ReturnType<typeof lateSteps>>;
  let clientUs: number;
  try {
    await stream(tokensOf(SECONDS.short)); // warm-up
    const shortUs = await stream(tokensOf(SECONDS.short));
    await Bun.sleep(1500); // separates the runs in the log of steps
    const since = await cursor(server.port);
    clientUs = (await stream(tokens)) - shortUs;
    late = await lateSteps(server.port, since);
  } finally {
    await server.stop();
  }
  const after = await control(SERVER_CORE, PERIOD_US, seconds / 10);
  return judge(seconds, tokens, clientUs, late === null ? null : byCause(late), [before, after]);
}

function judge(
  seconds: number,
  tokens: number,
  clientUs: number,
  causes: ReturnType<typeof byCause> | null,
  controls: readonly ControlResult[],
) {
  const steps = runOf(doubles(logged)).filter((_, i, all) => i >= all.length - tokens);
  const part = Math.max(50, Math.round(steps.length * SHARE));
  const latenessOf = (some: typeof steps) => median(some.map(({ dueUs, startUs }) => startUs - dueUs));
  const [startUs, endUs] = [latenessOf(steps.slice(0, part)), latenessOf(steps.slice(-part))];
  const gridUs = steps.at(-1)!.dueUs - steps[0]!.dueUs - (steps.length - 1) * PERIOD_US;
  table(`${STREAMS} streams at ${PERIOD_US / 1000} ms for ${seconds} s: ${steps.length} steps, µs`, [
    ["", "grid of due times", "lateness p50, beginning", "lateness p50, end", "excess of streams over short ones, p50"],
    ["", gridUs, startUs, endUs, clientUs],
  ]);
  showCauses(causes, steps.length);
  const serverUs = Math.abs(gridUs) + Math.abs(endUs - startUs);
  console.log(`  ${bar("drift of grid and lateness, by the server's clock", serverUs, BAR.driftUs, "µs")}`);
  console.log(`  ${bar("drift of the streams' length, by the client's clock", Math.abs(clientUs), BAR.driftUs, "µs")}`);
  const isVoid = controls.some(({ p99Us }) => p99Us > BAR.controlP99Us);
  if (isVoid) console.log("  VOID: the bare timer process was late, so the machine is too busy");
  return { seconds, steps: steps.length, gridUs, startUs, endUs, clientUs, causes, controls, isVoid };
}
