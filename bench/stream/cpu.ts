/** Measures the CPU time per streamed token of our server and of the bare C server, in turn, with equal bytes. */
import { readFileSync } from "node:fs";
import { bar, figure, has, note, number, progress, table } from "../lib/bench.ts";
import { chat, complete, prose, read, sameChat } from "../lib/client.ts";
import { median, medians } from "../lib/numbers.ts";
import { type RunningServer, serve } from "../lib/servers.ts";
import { capture, startLoop } from "./capture.ts";

const STREAMS = 64;
/**
 * Smallest number of reads per event of a valid run. With fewer, the client has fallen behind, the kernel joins segments, and the
 * sender needs only half the CPU time per event. Such a run is repeated.
 */
const KEPT_UP = 0.93;
const BAR = 1.15;

export const FREE_FLAGS = ["--timing", "none", "--max-model-len", "131072", "--num-gpu-blocks-override", "131072"];

/** User and system time of a process with all its threads, in microseconds. The resolution is 10 ms. */
function cpuOf(pid: number) {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return { userUs: Number(fields[11]) * 10_000, systemUs: Number(fields[12]) * 10_000 };
}

/** Runs the streams against one server. Returns CPU time per token. */
async function run({ pid, port }: RunningServer, body: unknown, tokens: number) {
  const before = cpuOf(pid);
  const { recvs, events, bytes, streamingUs } = complete(
    await read({ port, body, streams: STREAMS, together: true }),
    STREAMS,
  );
  const after = cpuOf(pid);
  const each = STREAMS * tokens;
  const [userUs, systemUs] = [(after.userUs - before.userUs) / each, (after.systemUs - before.systemUs) / each];
  const eventsPerSecond = Math.round((events / streamingUs) * 1e6);
  const shown = { cpuUs: userUs + systemUs, userUs, systemUs, readsPerEvent: recvs / events, eventsPerSecond };
  return { ...shown, events, bytes };
}
type Run = Awaited<ReturnType<typeof run>>;

/** The runs of one round: our server and the C server. */
type Round = Readonly<Record<"ours" | "anchor", Run>>;

/** Returns the body for all streams. All answers have equal bytes, unless `--varied` gives each stream another text. */
const streamBody = (tokens: number) => (has("--varied") ? chat(prose(20), tokens) : sameChat(tokens));

/** Describes the bytes per event. Throws if the servers did not send the same. */
function comparedBytes(ours: Run, anchor: Run, events: number): string {
  if (ours.events !== events) throw new Error(`our server sent ${ours.events} events instead of ${events}`);
  const [mine, bare] = [ours.bytes / ours.events, anchor.bytes / anchor.events];
  if (Math.abs(mine / bare - 1) > (has("--varied") ? 0.005 : 0))
    throw new Error(`bytes per event differ: ours ${mine}, C server ${bare}`);
  return `${mine.toFixed(1)} bytes per event${mine === bare ? " from both" : `, C server ${bare.toFixed(1)}`}`;
}

export async function cpuPerToken() {
  const pairs = number("--pairs", has("--quick") ? 3 : 5);
  const tokens = has("--quick") ? 4000 : 11_000;
  const body = streamBody(tokens);
  progress("cpu: starting");
  await using ours = await serve(FREE_FLAGS);
  const template = await capture(ours.port, body, "cpu");
  await using anchor = await startLoop(template, { wait: STREAMS });
  const round = async (): Promise<Round> => ({
    ours: await run(ours, body, tokens),
    anchor: await run(anchor, body, tokens),
  });
  await round(); // warm-up
  const runs: Round[] = [];
  let dropped = 0;
  while (runs.length < pairs && dropped < 4 * pairs + 4) {
    const note = dropped ? `, ${dropped} dropped: the client fell behind` : "";
    progress(`cpu: pair ${runs.length + 1} of ${pairs}${note}`);
    const pair = await round();
    if (Object.values(pair).some(({ readsPerEvent }) => readsPerEvent < KEPT_UP)) dropped++;
    else runs.push(pair);
  }
  if (runs.length === 0) {
    console.log(`\ncpu: void, the client fell behind in all ${dropped} pairs (busy machine?)`);
    return { dropped, pairs: 0 };
  }
  return summary(runs, dropped, comparedBytes(runs[0]!.ours, runs[0]!.anchor, template.events * STREAMS));
}

function summary(runs: readonly Round[], dropped: number, bytes: string) {
  const of = (side: keyof Round) => {
    const { events: _, bytes: __, ...shown } = medians(runs.map((round) => round[side]));
    return shown;
  };
  const ratios = runs.map((round) => round.ours.cpuUs / round.anchor.cpuUs);
  const [ours, anchor, ratio] = [of("ours"), of("anchor"), median(ratios)];
  const rounds = `median of ${runs.length} alternating pairs (${dropped} dropped)`;
  table(`CPU per streamed token, ${STREAMS} streams, ${rounds}; ${bytes}`, [
    ["", "µs", "user", "system", "reads/event", "events/s"],
    ["understudy", ...Object.values(ours)],
    ["bare C loop", ...Object.values(anchor)],
  ]);
  note(`${bar("ratio", ratio, BAR, "×")}; pairs: ${ratios.map(figure).join(" ")}`);
  return { ratio, pairs: runs.length, dropped, ours, anchor, bytes };
}
