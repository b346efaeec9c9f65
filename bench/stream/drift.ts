/**
 * Measures whether the times of tokens drift away from the machine's clock, with 100 streams for ten minutes. The server's log
 * shows whether steps remain on their grid, and whether they start later at the end than at the beginning.
 *
 * The client's clock shows by how much a stream lasts longer than planned, minus the same of a short stream. The time of the last
 * token does not count, because the end of all streams delays it.
 */

import { bars, has, progress, root, table } from "../lib/bench.ts";
import { complete, doubles, read, sameChat, stampsOf } from "../lib/client.ts";
import { median } from "../lib/numbers.ts";
import { betweenControls, noteVoid, serve } from "../lib/servers.ts";
import { byCause, cursor, lateSteps, showCauses } from "./causes.ts";
import { runOf } from "./steps.ts";

const STREAMS = 100;
const PERIOD_US = 20_000;
const SECONDS = { whole: 600, quick: 30, short: 5 };
/** Share of the run that counts as its beginning, and as its end. */
const SHARE = 0.05;
const DRIFT_US = 1000;

const folder = `${root}build/bench`;
const logged = `${folder}/steps.f64`;
const stamps = `${folder}/stamps.f64`;

const tokensOf = (seconds: number) => Math.round((seconds * 1e6) / PERIOD_US);

/** Measures by how much the streams last longer than planned, minus the same of short ones, and the causes of late steps. */
async function streamed(tokens: number) {
  await using server = await serve(
    [
      ...["--timing", `constant:ttft=100ms,itl=${PERIOD_US / 1000}ms`, "--max-num-seqs", String(STREAMS)],
      ...["--max-model-len", "131072", "--num-gpu-blocks-override", "524288"],
    ],
    { env: { UNDERSTUDY_STEP_LOG: logged } },
  );
  const excessUs = async (tokens: number) => {
    const options = { streams: STREAMS, together: true, stamps, stampsMost: tokens };
    complete(await read({ port: server.port, body: sameChat(tokens), ...options }), STREAMS);
    // The first event has the role, and each further event has a token.
    return median(stampsOf(stamps).map((us) => us[tokens - 1]! - us[1]! - (tokens - 2) * PERIOD_US));
  };
  await excessUs(tokensOf(SECONDS.short)); // warm-up
  const shortUs = await excessUs(tokensOf(SECONDS.short));
  await Bun.sleep(1500); // separates the runs in the log of steps
  const since = await cursor(server.port);
  const clientUs = (await excessUs(tokens)) - shortUs;
  return { clientUs, causes: byCause(await lateSteps(server.port, since)) };
}

export async function drift() {
  const seconds = has("--quick") ? SECONDS.quick : SECONDS.whole;
  const tokens = tokensOf(seconds);
  const { result, before, after, isVoid } = await betweenControls("drift", PERIOD_US, seconds / 10, () => {
    progress(`drift: ${seconds} s`);
    return streamed(tokens);
  });
  const { clientUs, causes } = result;
  const steps = runOf(doubles(logged)).slice(-tokens);
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
  bars(
    ["drift of grid and lateness, by the server's clock", serverUs, DRIFT_US, "µs"],
    ["drift of the streams' length, by the client's clock", Math.abs(clientUs), DRIFT_US, "µs"],
  );
  noteVoid(isVoid);
  const controls = [before, after];
  return { seconds, steps: steps.length, gridUs, startUs, endUs, clientUs, causes, controls, isVoid };
}
