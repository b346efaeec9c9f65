/** Measures how late steps start, and how long their writing takes, with many streams at a steady pace. */
import { has, number } from "../lib/options.ts";
import { Page } from "../lib/page.ts";
import {
  CLIENT_CORE,
  type ControlResult,
  control,
  cpuOf,
  program,
  type RunningServer,
  SERVER_CORE,
  serverCommand,
  start,
} from "../lib/process.ts";
import { chat, wordsPerToken } from "../lib/prompt.ts";
import { complete, doubles, read, streamTimes } from "../lib/reader.ts";
import { bar, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { longPrompts, type Prompts, scrapes } from "./background.ts";
import { capture, type Template } from "./capture.ts";
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
const BAR = { lateP99Us: UNDER_LOAD ? 1000 : 500, write: 1.3, longUs: 5000, stretch: 0.005, controlP99Us: 1000 };

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

function busyUs(pid: number): number {
  const { userUs, systemUs } = cpuOf(pid);
  return userUs + systemUs;
}

async function runOurs(setting: Case, tokens: number, seconds: number) {
  const env = { UNDERSTUDY_STEP_LOG: logged };
  const server = await start(serverCommand(flags(setting)), { core: SERVER_CORE, env });
  const body = chat("Tell me about the weather.", tokens, { seed: 1 });
  let result: Awaited<ReturnType<typeof streamAll>>;
  try {
    result = await streamAll(server, setting, body, tokens, seconds);
  } finally {
    await server.stop();
  }
  const rows = doubles(logged);
  const [firstUs, lastUs] = measuredRange(rows);
  const late = result.late?.filter(({ dueUs }) => dueUs >= firstUs && dueUs <= lastUs) ?? null;
  const { late: _, ...rest } = result;
  return {
    ...rest,
    steps: mainRun(rows),
    stretch: stretch(streamTimes(stamped), rows, tokens),
    causes: late && byCause(late),
  };
}

async function streamAll(
  { pid, port }: RunningServer,
  { streams, periodUs }: Case,
  body: object,
  tokens: number,
  seconds: number,
) {
  const template = await capture(port, { ...body, max_tokens: 200 }, "paced");
  const prompts = promptsBeside(seconds);
  const perToken = prompts ? await wordsPerToken(port) : 0;
  progress(`${streams} streams: warming up`);
  const warmUp = { ...body, max_tokens: Math.round((WARM_S * 1e6) / periodUs) };
  await Promise.all([
    read({ port, body: warmUp, streams, together: true }),
    prompts ? longPrompts(port, perToken, { ...prompts, count: WARM_PROMPTS }) : 0,
  ]);
  await Bun.sleep(1500); // separates the warm-up from the measured run in the log of steps
  const before = await Page.of(port);
  const busyBeforeUs = busyUs(pid);
  const since = await cursor(port);
  const streaming = read({ port, body, streams, together: true, perStream: stamped });
  const [result, promptTokens, scraped] = await Promise.all([
    streaming,
    prompts ? longPrompts(port, perToken, prompts) : 0,
    UNDER_LOAD ? scrapes(port, streaming) : 0,
  ]);
  const cpuUs = (busyUs(pid) - busyBeforeUs) / complete(result, streams).events;
  const after = await Page.of(port);
  return {
    template,
    cpuUs,
    promptTokens,
    prompts: prompts?.count ?? 0,
    scraped,
    late: await lateSteps(port, since),
    mergedEvents: streams * (tokens + template.events - 200) - result.events,
    own: {
      lateMeanUs: after.since(before, "understudy_step_start_lateness_seconds").mean * 1e6,
      writeMeanUs: after.since(before, "understudy_step_write_seconds").mean * 1e6,
      rebasedS: after.value(REBASED) - before.value(REBASED),
    },
  };
}

async function runAnchor({ streams, periodUs }: Case, tokens: number, template: Template) {
  const log = `${folder}/anchor-steps.f64`;
  const words = [program("anchor"), "--template", root + template.path, "--wait", String(streams), "--log", log];
  words.push("--events", String(tokens + template.units - 200), "--period-us", String(periodUs));
  const anchor = await start(words, { core: SERVER_CORE });
  let cpuUs: number;
  try {
    const result = await read({ port: anchor.port, body: {}, streams, together: true, perStream: stamped });
    cpuUs = busyUs(anchor.pid) / complete(result, streams).events;
  } finally {
    await anchor.stop();
  }
  const rows = doubles(log);
  return { cpuUs, steps: mainRun(rows), stretch: stretch(streamTimes(stamped), rows, tokens) };
}

export async function paced() {
  // In production another machine scrapes. Here this process shares a core with the reader of the streams.
  if (UNDER_LOAD) Bun.spawnSync(["taskset", "-a", "-c", "-p", String(CLIENT_CORE), String(process.pid)]);
  const seconds = number("--seconds", has("--quick") ? 10 : 60);
  const only = number("--streams", 0);
  const results: unknown[] = [];
  for (const setting of CASES.filter(({ streams }) => only === 0 || streams === only)) {
    const tokens = Math.round((seconds * 1e6) / setting.periodUs);
    const load = UNDER_LOAD ? ", under load" : has("--long-prompts") ? ", long prompts" : "";
    const name = `${setting.streams} streams at ${setting.periodUs / 1000} ms${load}`;
    for (let tries = 1; tries <= TRIES; tries++) {
      const result = await runCase(setting, name, tokens, seconds);
      results.push(result);
      if (!result.isVoid) break;
    }
  }
  return results;
}

async function runCase(setting: Case, name: string, tokens: number, seconds: number) {
  progress(`${name}: control`);
  const before = await control(SERVER_CORE, setting.periodUs, seconds / 4);
  progress(`${name}: understudy`);
  const ours = await runOurs(setting, tokens, seconds);
  progress(`${name}: bare C loop`);
  const anchor = await runAnchor(setting, tokens, ours.template);
  progress(`${name}: control`);
  const after = await control(SERVER_CORE, setting.periodUs, seconds / 4);
  return { ...setting, seconds, ...judge(name, ours, anchor, [before, after]), ours, anchor, before, after };
}

type Ours = Awaited<ReturnType<typeof runOurs>>;
type Anchor = Awaited<ReturnType<typeof runAnchor>>;

function judge(name: string, ours: Ours, anchor: Anchor, controls: readonly ControlResult[]) {
  const mean = (value: (result: ControlResult) => number) =>
    controls.reduce((sum, result) => sum + value(result), 0) / controls.length;
  const row = (name: string, { steps, cpuUs, stretch }: { steps: Steps; cpuUs: number; stretch: number }) => [
    ...[name, steps.lateP50Us, steps.lateP99Us, steps.lateMaxUs],
    ...[steps.writeP50Us, steps.writeP99Us, steps.writeMaxUs, cpuUs, stretch * 100],
  ];
  table(`${name}: ${ours.steps.steps} steps, µs`, [
    ["", "late p50", "p99", "max", "write p50", "p99", "max", "CPU/event", "stretch %"],
    row("understudy", ours),
    row("bare C loop", anchor),
    [
      "control",
      mean(({ p50Us }) => p50Us),
      mean(({ p99Us }) => p99Us),
      Math.max(...controls.map(({ maxUs }) => maxUs)),
    ],
  ]);
  const control = { p99Us: mean(({ p99Us }) => p99Us), maxUs: Math.max(...controls.map(({ maxUs }) => maxUs)) };
  const isVoid = controls.some(({ p99Us }) => p99Us > BAR.controlP99Us);
  const lateBeyondUs = ours.steps.lateP99Us - control.p99Us;
  const writeRatio = ours.steps.writeP50Us / anchor.steps.writeP50Us;
  const lines = [bar("lateness p99, minus the control's", lateBeyondUs, BAR.lateP99Us, "µs")];
  // If the engine skips time after a late step, the later steps count as punctual, so it must not skip any.
  lines.push(bar("engine time skipped", ours.own.rebasedS * 1000, 0, "ms"));
  // The C server has no additional load, so its times are compared only without it.
  if (!UNDER_LOAD) {
    lines.push(bar("time of writing, p50 ÷ the C loop's", writeRatio, BAR.write, "×"));
    lines.push(bar("worst stretch of a stream", ours.stretch * 100, BAR.stretch * 100, "%"));
  }
  const worstBeyondUs = ours.steps.lateMaxUs - control.maxUs;
  if (UNDER_LOAD) {
    const tokens = Math.round(ours.promptTokens).toLocaleString("en");
    console.log(
      `  additional load: ${ours.prompts} prompts of ${tokens} tokens, ${ours.scraped} scrapes, the truth log`,
    );
  } else if (ours.promptTokens > 0) {
    lines.push(
      bar(`latest step with prompts of ${Math.round(ours.promptTokens)} tokens`, worstBeyondUs, BAR.longUs, "µs"),
    );
  }
  showCauses(ours.causes, ours.steps.steps);
  for (const line of lines) console.log(`  ${line}`);
  if (isVoid) console.log("  VOID: the bare timer process was late, so the machine is too busy");
  if (ours.mergedEvents > 0)
    console.log(`  ${ours.mergedEvents} events were merged with others, because the client fell behind`);
  return { isVoid, lateBeyondUs, worstBeyondUs, writeRatio };
}
