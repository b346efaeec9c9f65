/** Measures the CPU time per streamed token of our server and of the bare C server, in turn, with equal bytes. */
import { median } from "../lib/numbers.ts";
import { has, number } from "../lib/options.ts";
import { type Cpu, cpuOf, program, type RunningServer, SERVER_CORE, serverCommand, start } from "../lib/process.ts";
import { chat, prose } from "../lib/prompt.ts";
import { complete, read } from "../lib/reader.ts";
import { bar, figure, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { capture, type Template } from "./capture.ts";

const STREAMS = 64;
/**
 * Smallest number of reads per event of a valid run. With fewer, the client has fallen behind, the kernel joins segments, and the
 * sender needs only half the CPU time per event. Such a run is repeated.
 */
const KEPT_UP = 0.93;
const BAR = 1.15;

export const FREE_FLAGS = ["--timing", "none", "--max-model-len", "131072", "--num-gpu-blocks-override", "131072"];

interface Run {
  readonly userUs: number;
  readonly systemUs: number;
  readonly totalUs: number;
  readonly readsPerEvent: number;
  readonly events: number;
  readonly bytes: number;
  readonly perSecond: number;
}

/** The runs of one round: our server, the same with `--stream-writes single` if `--both-writes` is set, and the C server. */
interface Round {
  readonly ours: Run;
  readonly single?: Run;
  readonly anchor: Run;
}

/** Runs the streams against one server. Returns CPU time per token. */
async function run({ pid, port }: RunningServer, body: unknown, tokens: number): Promise<Run> {
  const before: Cpu = cpuOf(pid);
  const result = complete(await read({ port, body, streams: STREAMS, together: true }), STREAMS);
  const after = cpuOf(pid);
  const each = STREAMS * tokens;
  const [userUs, systemUs] = [(after.userUs - before.userUs) / each, (after.systemUs - before.systemUs) / each];
  return {
    userUs,
    systemUs,
    totalUs: userUs + systemUs,
    readsPerEvent: result.recvs / result.events,
    events: result.events,
    bytes: result.bytes,
    perSecond: (result.events / result.streamingUs) * 1e6,
  };
}

/** Returns the body for all streams. All answers have equal bytes, unless `--varied` gives each stream another text. */
function streamBody(tokens: number) {
  return has("--varied") ? chat(prose(20), tokens) : chat("Tell me about the weather.", tokens, { seed: 1 });
}

function checkBytes(ours: Run, anchor: Run, template: Template): string {
  if (ours.events !== template.events * STREAMS) {
    throw new Error(`our server sent ${ours.events} events instead of ${template.events * STREAMS}`);
  }
  const [mine, bare] = [ours.bytes / ours.events, anchor.bytes / anchor.events];
  if (Math.abs(mine / bare - 1) > (has("--varied") ? 0.005 : 0)) {
    throw new Error(`bytes per event differ: ours ${mine}, C server ${bare}`);
  }
  return `${mine.toFixed(1)} bytes per event${mine === bare ? " from both" : `, C server ${bare.toFixed(1)}`}`;
}

export async function cpuPerToken() {
  const pairs = number("--pairs", has("--quick") ? 3 : 5);
  const tokens = number("--tokens", has("--quick") ? 4000 : 11_000);
  const body = streamBody(tokens);
  progress("cpu: starting");
  const both = has("--both-writes");
  const ours = await start(serverCommand(FREE_FLAGS), { core: SERVER_CORE });
  const singly = serverCommand([...FREE_FLAGS, "--stream-writes", "single"]);
  const single = both ? await start(singly, { core: SERVER_CORE }) : null;
  const template = await capture(ours.port, body, "cpu");
  const words = [program("anchor"), "--template", root + template.path, "--wait", String(STREAMS)];
  const anchor = await start(words, { core: SERVER_CORE });
  const runs: Round[] = [];
  let dropped = 0;
  try {
    await run(ours, body, tokens); // warm-up
    if (single) await run(single, body, tokens);
    await run(anchor, body, tokens);
    while (runs.length < pairs && dropped < 4 * pairs + 4) {
      progress(
        `cpu: pair ${runs.length + 1} of ${pairs}${dropped ? `, ${dropped} dropped: the client fell behind` : ""}`,
      );
      const pair: Round = {
        ours: await run(ours, body, tokens),
        ...(single ? { single: await run(single, body, tokens) } : {}),
        anchor: await run(anchor, body, tokens),
      };
      if (Object.values(pair).some(({ readsPerEvent }) => readsPerEvent < KEPT_UP)) dropped++;
      else runs.push(pair);
    }
  } finally {
    await Promise.all([ours.stop(), single?.stop(), anchor.stop()]);
  }
  if (runs.length === 0) {
    console.log(`\ncpu: void, the client fell behind in all ${dropped} pairs (busy machine?)`);
    return { dropped, pairs: 0 };
  }
  return summary(runs, dropped, checkBytes(runs[0]!.ours, runs[0]!.anchor, template));
}

function summary(runs: readonly Round[], dropped: number, bytes: string) {
  const both = runs[0]!.single !== undefined;
  const of = (side: keyof Round, key: keyof Run) => median(runs.map((pair) => pair[side]![key]));
  const row = (side: keyof Round, name: string) => [
    name,
    of(side, "totalUs"),
    of(side, "userUs"),
    of(side, "systemUs"),
    of(side, "readsPerEvent"),
    Math.round(of(side, "perSecond")),
  ];
  const ratio = median(runs.map(({ ours, anchor }) => ours.totalUs / anchor.totalUs));
  table(
    `CPU per streamed token, ${STREAMS} streams, median of ${runs.length} alternating pairs (${dropped} dropped); ${bytes}`,
    [
      ["", "µs", "user", "system", "reads/event", "events/s"],
      row("ours", "understudy"),
      ...(both ? [row("single", "single writes")] : []),
      row("anchor", "bare C loop"),
    ],
  );
  const ratios = runs.map(({ ours, anchor }) => figure(ours.totalUs / anchor.totalUs)).join(" ");
  console.log(`  ${bar("ratio", ratio, BAR, "×")}; pairs: ${ratios}`);
  if (both) {
    const others = runs.map(({ single, anchor }) => single!.totalUs / anchor.totalUs);
    console.log(`  with single writes ${figure(median(others))} ×; pairs: ${others.map(figure).join(" ")}`);
  }
  const figures = (side: keyof Round) => ({
    cpuUs: of(side, "totalUs"),
    userUs: of(side, "userUs"),
    systemUs: of(side, "systemUs"),
    readsPerEvent: of(side, "readsPerEvent"),
    eventsPerSecond: of(side, "perSecond"),
  });
  return { ratio, pairs: runs.length, dropped, ours: figures("ours"), anchor: figures("anchor"), bytes };
}
