/** Measures how late steps start, and how long their writing takes, with many streams at a steady pace. */
import { bars, has, note, number, progress, root, table } from "../lib/bench.ts";
import { complete, doubles, Page, read, sameChat, streamTimes, wordsPerToken } from "../lib/client.ts";
import {
  betweenControls,
  CLIENT_CORE,
  type ControlResult,
  noteVoid,
  pinSelf,
  type RunningServer,
  serve,
  withCpu,
} from "../lib/servers.ts";
import { longPrompts, type Prompts, scrapes } from "./background.ts";
import { capture, startLoop, type Template } from "./capture.ts";
import { byCause, cursor, lateSteps, showCauses } from "./causes.ts";
import { mainRun, measuredRange, type Steps, stretch } from "./steps.ts";

interface Case {
  readonly streams: number;
  readonly periodUs: number;
}

const CASES: readonly Case[] = [
  { streams: 100, periodUs: 20_000 },
  { streams: 1000, periodUs: 20_000 },
  { streams: 2000, periodUs: 50_000 },
  { streams: 5000, periodUs: 200_000 },
];
/** Long prompts for `--long-prompts`. */
const LONG: Prompts = { count: 10, everyMs: has("--quick") ? 200 : 500 };
const UNDER_LOAD = has("--under-load");
/** Seconds of warm-up with as many streams, in which the compilers, on the same core, compile most of the code. */
const WARM_S = has("--quick") ? 5 : 20;
const WARM_PROMPTS = has("--quick") ? 1 : 12;
const EACH_SECOND_MS = 1000;
/** Largest number of runs of a case. A void run is repeated. */
const TRIES = 3;
const BAR = { lateP99Us: UNDER_LOAD ? 1000 : 500, write: 1.3, longUs: 5000, stretch: 0.005 };

const REBASED = "understudy_clock_rebased_seconds_total";

const folder = `${root}build/bench`;
const logged = `${folder}/steps.f64`;
const stamped = `${folder}/streams.f64`;

function flags({ streams, periodUs }: Case): string[] {
  return [
    ...["--timing", `constant:ttft=100ms,itl=${periodUs / 1000}ms`, "--max-num-seqs", String(streams + 64)],
    ...["--max-model-len", "131072", "--num-gpu-blocks-override", "524288"],
    ...(UNDER_LOAD ? ["--truth-log", `${folder}/truth.jsonl`, "--truth-log-files", "1"] : []),
  ];
}

/** Returns the long prompts to send during streams of `seconds` seconds. Null if the options ask for none. */
function promptsBeside(seconds: number): Prompts | null {
  // Six prompts fewer, so that the last one ends before the streams.
  if (UNDER_LOAD) return { count: Math.max(1, Math.round(seconds) - 6), everyMs: EACH_SECOND_MS };
  return has("--long-prompts") ? LONG : null;
}

async function runOurs(setting: Case, tokens: number, seconds: number) {
  const server = await serve(flags(setting), { env: { UNDERSTUDY_STEP_LOG: logged } });
  const { late, ...seen } = await streamAll(server, setting, tokens, seconds).finally(() => server.stop());
  const rows = doubles(logged);
  const [firstUs, lastUs] = measuredRange(rows);
  const causes = byCause(late?.filter(({ dueUs }) => dueUs >= firstUs && dueUs <= lastUs) ?? null);
  return { ...seen, steps: mainRun(rows), stretch: stretch(streamTimes(stamped), rows, tokens), causes };
}

async function streamAll(server: RunningServer, { streams, periodUs }: Case, tokens: number, seconds: number) {
  const { port } = server;
  const template = await capture(port, sameChat(200), "paced");
  const prompts = promptsBeside(seconds);
  const perToken = prompts ? await wordsPerToken(port) : 0;
  progress(`${streams} streams: warming up`);
  await Promise.all([
    read({ port, body: sameChat(Math.round((WARM_S * 1e6) / periodUs)), streams, together: true }),
    prompts ? longPrompts(port, perToken, { ...prompts, count: WARM_PROMPTS }) : 0,
  ]);
  await Bun.sleep(1500); // separates the warm-up from the measured run in the log of steps
  const before = await Page.of(port);
  const since = await cursor(port);
  const { result, us } = await withCpu(server, () => {
    const streaming = read({ port, body: sameChat(tokens), streams, together: true, perStream: stamped });
    const asked = prompts ? longPrompts(port, perToken, prompts) : 0;
    return Promise.all([streaming, asked, UNDER_LOAD ? scrapes(port, streaming) : 0]);
  });
  const [{ events }, promptTokens, scraped] = [complete(result[0], streams), result[1], result[2]];
  const after = await Page.of(port);
  return {
    ...{ template, cpuUs: us / events, promptTokens, prompts: prompts?.count ?? 0, scraped },
    late: await lateSteps(port, since),
    mergedEvents: streams * (tokens + template.events - 200) - events,
    own: {
      lateMeanUs: after.since(before, "understudy_step_start_lateness_seconds").mean * 1e6,
      writeMeanUs: after.since(before, "understudy_step_write_seconds").mean * 1e6,
      rebasedS: after.value(REBASED) - before.value(REBASED),
    },
  };
}

async function runAnchor({ streams, periodUs }: Case, tokens: number, template: Template) {
  const log = `${folder}/anchor-steps.f64`;
  const anchor = await startLoop(template, { wait: streams, log, events: tokens + template.units - 200, periodUs });
  const reading = { port: anchor.port, body: {}, streams, together: true, perStream: stamped };
  const { result, us } = await withCpu(anchor, () => read(reading)).finally(() => anchor.stop());
  const rows = doubles(log);
  const cpuUs = us / complete(result, streams).events;
  return { cpuUs, steps: mainRun(rows), stretch: stretch(streamTimes(stamped), rows, tokens) };
}

export async function paced() {
  // In production another machine scrapes. Here this process shares a core with the reader of the streams.
  if (UNDER_LOAD) pinSelf(CLIENT_CORE);
  const seconds = number("--seconds", has("--quick") ? 10 : 60);
  const only = number("--streams", 0);
  const load = UNDER_LOAD ? ", under load" : has("--long-prompts") ? ", long prompts" : "";
  const results: unknown[] = [];
  for (const setting of CASES.filter(({ streams }) => only === 0 || streams === only)) {
    const tokens = Math.round((seconds * 1e6) / setting.periodUs);
    const name = `${setting.streams} streams at ${setting.periodUs / 1000} ms${load}`;
    for (let [tries, isVoid] = [0, true]; isVoid && tries < TRIES; tries++) {
      const run = await betweenControls(name, setting.periodUs, seconds / 4, async () => {
        progress(`${name}: understudy`);
        const ours = await runOurs(setting, tokens, seconds);
        progress(`${name}: bare C loop`);
        return { ours, anchor: await runAnchor(setting, tokens, ours.template) };
      });
      const { result, before, after } = run;
      ({ isVoid } = run);
      const verdict = judge(name, result.ours, result.anchor, [before, after]);
      noteVoid(isVoid);
      if (result.ours.mergedEvents > 0)
        note(`${result.ours.mergedEvents} events were merged with others, because the client fell behind`);
      results.push({ ...setting, seconds, isVoid, ...verdict, ...result, before, after });
    }
  }
  return results;
}

type Ours = Awaited<ReturnType<typeof runOurs>>;
type Anchor = Awaited<ReturnType<typeof runAnchor>>;

function judge(name: string, ours: Ours, anchor: Anchor, controls: readonly ControlResult[]) {
  const meanOf = (key: keyof ControlResult) => controls.reduce((sum, result) => sum + result[key], 0) / controls.length;
  const controlMaxUs = Math.max(...controls.map(({ maxUs }) => maxUs));
  const row = (name: string, { steps, cpuUs, stretch }: { steps: Steps; cpuUs: number; stretch: number }) => {
    const { steps: _, ...times } = steps;
    return [name, ...Object.values(times), cpuUs, stretch * 100];
  };
  table(`${name}: ${ours.steps.steps} steps, µs`, [
    ["", "late p50", "p99", "max", "write p50", "p99", "max", "CPU/event", "stretch %"],
    row("understudy", ours),
    row("bare C loop", anchor),
    ["control", meanOf("p50Us"), meanOf("p99Us"), controlMaxUs],
  ]);
  const lateBeyondUs = ours.steps.lateP99Us - meanOf("p99Us");
  const worstBeyondUs = ours.steps.lateMaxUs - controlMaxUs;
  const writeRatio = ours.steps.writeP50Us / anchor.steps.writeP50Us;
  const promptTokens = Math.round(ours.promptTokens);
  if (UNDER_LOAD) {
    const prompts = `${ours.prompts} prompts of ${promptTokens.toLocaleString("en")} tokens`;
    note(`additional load: ${prompts}, ${ours.scraped} scrapes, the truth log`);
  }
  showCauses(ours.causes, ours.steps.steps);
  bars(["lateness p99, minus the control's", lateBeyondUs, BAR.lateP99Us, "µs"]);
  // If the engine skips time after a late step, the later steps count as punctual, so it must not skip any.
  bars(["engine time skipped", ours.own.rebasedS * 1000, 0, "ms"]);
  // The C server has no additional load, so its times are compared only without it.
  if (!UNDER_LOAD) {
    bars(["time of writing, p50 ÷ the C loop's", writeRatio, BAR.write, "×"]);
    bars(["worst stretch of a stream", ours.stretch * 100, BAR.stretch * 100, "%"]);
    if (promptTokens > 0) bars([`latest step with prompts of ${promptTokens} tokens`, worstBeyondUs, BAR.longUs, "µs"]);
  }
  return { lateBeyondUs, worstBeyondUs, writeRatio };
}
