/** CPU per streamed token of the server and of the bare C server, in turn, with equal bytes and the same client. */
import { median } from "../lib/numbers.ts";
import { has, number } from "../lib/options.ts";
import { type Cpu, cpuOf, program, type Running, SERVER_CORE, serverCommand, start } from "../lib/process.ts";
import { chat, prose } from "../lib/prompt.ts";
import { complete, read } from "../lib/reader.ts";
import { bar, figure, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { capture, type Template } from "./capture.ts";

const STREAMS = 64;
/**
 * Fewer reads than this per event: the client had fallen behind. The kernel then joins segments and wakes nobody, and the
 * sender's CPU per event falls to a half; such a run compares nothing and is run again.
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

/** One round: the server, the same with `--stream-writes single` where both are asked for, and the bare one. */
interface Runs {
  readonly ours: Run;
  readonly single?: Run;
  readonly anchor: Run;
}

/** One run against one server; CPU is per token. */
async function run({ pid, port }: Running, body: unknown, tokens: number): Promise<Run> {
  const before: Cpu = cpuOf(pid);
  const seen = complete(await read({ port, body, streams: STREAMS, together: true }), STREAMS);
  const after = cpuOf(pid);
  const each = STREAMS * tokens;
  const [userUs, systemUs] = [(after.userUs - before.userUs) / each, (after.systemUs - before.systemUs) / each];
  return {
    userUs,
    systemUs,
    totalUs: userUs + systemUs,
    readsPerEvent: seen.recvs / seen.events,
    events: seen.events,
    bytes: seen.bytes,
    perSecond: (seen.events / seen.streamingUs) * 1e6,
  };
}

/** Body of the request, one for all streams: equal bytes to the last one; `--varied`: each its own text, equal on average. */
function streamBody(tokens: number) {
  return has("--varied") ? chat(prose(20), tokens) : chat("Tell me about the weather.", tokens, { seed: 1 });
}

function checkBytes(ours: Run, anchor: Run, template: Template): string {
  if (ours.events !== template.events * STREAMS) {
    throw new Error(`${template.events * STREAMS} events wanted, ours sent ${ours.events}: it merged or lost some`);
  }
  const [mine, bare] = [ours.bytes / ours.events, anchor.bytes / anchor.events];
  if (Math.abs(mine / bare - 1) > (has("--varied") ? 0.005 : 0)) {
    throw new Error(`bytes per event differ: ours ${mine}, anchor ${bare}`);
  }
  return `${mine.toFixed(1)} bytes per event${mine === bare ? ", equal to the byte" : `, anchor ${bare.toFixed(1)}`}`;
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
  const runs: Runs[] = [];
  let dropped = 0;
  try {
    await run(ours, body, tokens); // compiles the hot path
    if (single) await run(single, body, tokens);
    await run(anchor, body, tokens);
    while (runs.length < pairs && dropped < 4 * pairs + 4) {
      progress(
        `cpu: pair ${runs.length + 1} of ${pairs}${dropped ? `, ${dropped} dropped: the client fell behind` : ""}`,
      );
      const pair: Runs = {
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

function summary(runs: readonly Runs[], dropped: number, bytes: string) {
  const both = runs[0]!.single !== undefined;
  const of = (who: keyof Runs, key: keyof Run) => median(runs.map((pair) => pair[who]![key]));
  const row = (who: keyof Runs, name: string) => [
    name,
    of(who, "totalUs"),
    of(who, "userUs"),
    of(who, "systemUs"),
    of(who, "readsPerEvent"),
    Math.round(of(who, "perSecond")),
  ];
  const ratio = median(runs.map(({ ours, anchor }) => ours.totalUs / anchor.totalUs));
  table(
    `CPU per streamed token, ${STREAMS} streams, median of ${runs.length} interleaved pairs (${dropped} dropped); ${bytes}`,
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
  const figures = (who: keyof Runs) => ({
    cpuUs: of(who, "totalUs"),
    userUs: of(who, "userUs"),
    systemUs: of(who, "systemUs"),
    readsPerEvent: of(who, "readsPerEvent"),
    eventsPerSecond: of(who, "perSecond"),
  });
  return { ratio, pairs: runs.length, dropped, ours: figures("ours"), anchor: figures("anchor"), bytes };
}
