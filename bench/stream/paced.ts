/** How late do steps start, and how long does their writing take, with many streams at a steady pace? */
import { has, number } from "../lib/options.ts";
import { Page } from "../lib/page.ts";
import {
  CLIENT_CORE,
  type ControlResult,
  control,
  cpuOf,
  program,
  type Running,
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
import { mainRun, measured, type Steps, stretch } from "./steps.ts";

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
/** Ten of them, fast; or one each second beside scrapes and the truth log. */
const LONG: Prompts = { count: 10, everyMs: has("--quick") ? 200 : 500 };
const UNDER_LOAD = has("--under-load");
/**
 * Seconds of warm-up, with as many streams and prompts: the host's compilers, on the same core, are done with most of it
 * then.
 */
const WARM_S = has("--quick") ? 5 : 20;
const WARM_PROMPTS = has("--quick") ? 1 : 12;
const EACH_SECOND_MS = 1000;
/** A void run says nothing: the case runs again. */
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

/** Long prompts beside the streams, which last so long. */
function promptsBeside(seconds: number): Prompts | null {
  // The last ones end before the streams do.
  if (UNDER_LOAD) return { count: Math.max(1, Math.round(seconds) - 6), everyMs: EACH_SECOND_MS };
  return has("--long-prompts") ? LONG : null;
}

function busyUs(pid: number): number {
  const { userUs, systemUs } = cpuOf(pid);
  return userUs + systemUs;
}

async function runOurs(which: Case, tokens: number, seconds: number) {
  const server = await start(serverCommand(flags(which)), { core: SERVER_CORE, env: { UNDERSTUDY_STEP_LOG: logged } });
  const body = chat("Tell me about the weather.", tokens, { seed: 1 });
  let seen: Awaited<ReturnType<typeof streamAll>>;
  try {
    seen = await streamAll(server, which, body, tokens, seconds);
  } finally {
    await server.stop();
  }
  const rows = doubles(logged);
  const [firstUs, lastUs] = measured(rows);
  const late = seen.late?.filter(({ dueUs }) => dueUs >= firstUs && dueUs <= lastUs) ?? null;
  const { late: _, ...rest } = seen;
  return {
    ...rest,
    steps: mainRun(rows),
    stretch: stretch(streamTimes(stamped), rows, tokens),
    causes: late && byCause(late),
  };
}

async function streamAll(
  { pid, port }: Running,
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
  await Bun.sleep(1500); // a pause in the log of steps: what came before it is not measured
  const before = await Page.of(port);
  const busyBeforeUs = busyUs(pid);
  const since = await cursor(port);
  const streaming = read({ port, body, streams, together: true, perStream: stamped });
  const [seen, promptTokens, scraped] = await Promise.all([
    streaming,
    prompts ? longPrompts(port, perToken, prompts) : 0,
    UNDER_LOAD ? scrapes(port, streaming) : 0,
  ]);
  const cpuUs = (busyUs(pid) - busyBeforeUs) / complete(seen, streams).events;
  const after = await Page.of(port);
  return {
    template,
    cpuUs,
    promptTokens,
    prompts: prompts?.count ?? 0,
    scraped,
    late: await lateSteps(port, since),
    mergedEvents: streams * (tokens + template.events - 200) - seen.events,
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
    const seen = await read({ port: anchor.port, body: {}, streams, together: true, perStream: stamped });
    cpuUs = busyUs(anchor.pid) / complete(seen, streams).events;
  } finally {
    await anchor.stop();
  }
  const rows = doubles(log);
  return { cpuUs, steps: mainRun(rows), stretch: stretch(streamTimes(stamped), rows, tokens) };
}

export async function paced() {
  // Whoever scrapes would be another machine: here it shares a core with the reader of the streams.
  if (UNDER_LOAD) Bun.spawnSync(["taskset", "-a", "-c", "-p", String(CLIENT_CORE), String(process.pid)]);
  const seconds = number("--seconds", has("--quick") ? 10 : 60);
  const only = number("--streams", 0);
  const results: unknown[] = [];
  for (const which of CASES.filter(({ streams }) => only === 0 || streams === only)) {
    const tokens = Math.round((seconds * 1e6) / which.periodUs);
    const beside = UNDER_LOAD ? ", under load" : has("--long-prompts") ? ", long prompts" : "";
    const name = `${which.streams} streams at ${which.periodUs / 1000} ms${beside}`;
    for (let tries = 1; tries <= TRIES; tries++) {
      const result = await runCase(which, name, tokens, seconds);
      results.push(result);
      if (!result.isVoid) break;
    }
  }
  return results;
}

async function runCase(which: Case, name: string, tokens: number, seconds: number) {
  progress(`${name}: control`);
  const before = await control(SERVER_CORE, which.periodUs, seconds / 4);
  progress(`${name}: understudy`);
  const ours = await runOurs(which, tokens, seconds);
  progress(`${name}: bare C loop`);
  const anchor = await runAnchor(which, tokens, ours.template);
  progress(`${name}: control`);
  const after = await control(SERVER_CORE, which.periodUs, seconds / 4);
  return { ...which, seconds, ...judge(name, ours, anchor, [before, after]), ours, anchor, before, after };
}

type Ours = Awaited<ReturnType<typeof runOurs>>;
type Anchor = Awaited<ReturnType<typeof runAnchor>>;

function judge(name: string, ours: Ours, anchor: Anchor, controls: readonly ControlResult[]) {
  const mean = (of: (one: ControlResult) => number) =>
    controls.reduce((sum, one) => sum + of(one), 0) / controls.length;
  const row = (who: string, { steps, cpuUs, stretch }: { steps: Steps; cpuUs: number; stretch: number }) => [
    ...[who, steps.lateP50Us, steps.lateP99Us, steps.lateMaxUs],
    ...[steps.writeP50Us, steps.writeP99Us, steps.writeMaxUs, cpuUs, stretch * 100],
  ];
  table(`${name}: ${ours.steps.steps} steps, µs`, [
    ["", "late p50", "p99", "max", "write p50", "p99", "max", "CPU/event", "stretch %"],
    row("understudy", ours),
    row("bare C loop", anchor),
    ["control", mean((one) => one.p50Us), mean((one) => one.p99Us), Math.max(...controls.map((one) => one.maxUs))],
  ]);
  const control = { p99Us: mean((one) => one.p99Us), maxUs: Math.max(...controls.map((one) => one.maxUs)) };
  const isVoid = controls.some((one) => one.p99Us > BAR.controlP99Us);
  const lateBeyondUs = ours.steps.lateP99Us - control.p99Us;
  const writeRatio = ours.steps.writeP50Us / anchor.steps.writeP50Us;
  const lines = [bar("late p99 beyond the control", lateBeyondUs, BAR.lateP99Us, "µs")];
  // A step after which time moved on counts as punctual: none may.
  lines.push(bar("engine time moved on", ours.own.rebasedS * 1000, 0, "ms"));
  // What goes on beside the streams is none of the C loop's.
  if (!UNDER_LOAD) {
    lines.push(bar("writing, p50, against the C loop", writeRatio, BAR.write, "×"));
    lines.push(bar("worst stretch of a stream", ours.stretch * 100, BAR.stretch * 100, "%"));
  }
  const worstBeyondUs = ours.steps.lateMaxUs - control.maxUs;
  if (UNDER_LOAD) {
    const tokens = Math.round(ours.promptTokens).toLocaleString("en");
    console.log(`  beside: ${ours.prompts} prompts of ${tokens} tokens, ${ours.scraped} scrapes, the truth log`);
  } else if (ours.promptTokens > 0) {
    lines.push(bar(`worst step, prompts of ${Math.round(ours.promptTokens)} tokens`, worstBeyondUs, BAR.longUs, "µs"));
  }
  showCauses(ours.causes, ours.steps.steps);
  for (const line of lines) console.log(`  ${line}`);
  if (isVoid) console.log("  VOID: the control itself was late; the machine is too busy");
  if (ours.mergedEvents > 0)
    console.log(`  ${ours.mergedEvents} events were merged into others: the client fell behind`);
  return { isVoid, lateBeyondUs, worstBeyondUs, writeRatio };
}
