/** How late do steps start, and how long does their writing take, with many streams at a steady pace? */
import { has } from "../lib/options.ts";
import { Page } from "../lib/page.ts";
import {
  type ControlResult,
  control,
  cpuOf,
  program,
  type Running,
  SERVER_CORE,
  serverCommand,
  start,
} from "../lib/process.ts";
import { chat, prose, wordsPerToken } from "../lib/prompt.ts";
import { complete, doubles, read, streamTimes } from "../lib/reader.ts";
import { bar, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { capture, type Template } from "./capture.ts";
import { mainRun, type Steps, stretch } from "./steps.ts";

interface Case {
  readonly streams: number;
  readonly periodUs: number;
}

const CASES: readonly Case[] = [
  { streams: 1000, periodUs: 20_000 },
  { streams: 2000, periodUs: 50_000 },
];
const LONG = { prompts: 10, tokens: 100_000, everyMs: has("--quick") ? 200 : 500, afterMs: 3000, streamed: 20 };
const BAR = { lateP99Us: 500, write: 1.3, longUs: 5000, stretch: 0.005, controlP99Us: 1000 };

const folder = `${root}build/bench`;
const logged = `${folder}/steps.f64`;
const stamped = `${folder}/streams.f64`;

function flags({ streams, periodUs }: Case): string[] {
  return [
    ...["--timing", `constant:ttft=100ms,itl=${periodUs / 1000}ms`, "--max-num-seqs", String(streams + LONG.prompts)],
    ...["--max-model-len", "131072", "--num-gpu-blocks-override", "524288"],
  ];
}

function busyUs(pid: number): number {
  const { userUs, systemUs } = cpuOf(pid);
  return userUs + systemUs;
}

/** Ten long prompts, one after the other, from a second client; tokens per prompt as the server counts them. */
async function longPrompts(port: number, words: number): Promise<number> {
  await Bun.sleep(LONG.afterMs);
  const before = await Page.of(port);
  const body = chat(prose(words, 7), LONG.streamed);
  complete(await read({ port, body, streams: LONG.prompts, ramp: 1, everyMs: LONG.everyMs }), LONG.prompts);
  const name = "vllm:prompt_tokens_total";
  return ((await Page.of(port)).value(name) - before.value(name)) / LONG.prompts;
}

async function runOurs(which: Case, tokens: number) {
  const server = await start(serverCommand(flags(which)), { core: SERVER_CORE, env: { UNDERSTUDY_STEP_LOG: logged } });
  const body = chat("Tell me about the weather.", tokens, { seed: 1 });
  let measured: Awaited<ReturnType<typeof streamAll>>;
  try {
    measured = await streamAll(server, which, body, tokens);
  } finally {
    await server.stop();
  }
  const rows = doubles(logged);
  return { ...measured, steps: mainRun(rows), stretch: stretch(streamTimes(stamped), rows, tokens) };
}

async function streamAll({ pid, port }: Running, { streams }: Case, body: object, tokens: number) {
  const template = await capture(port, { ...body, max_tokens: 200 }, "paced");
  const words = has("--long-prompts") ? Math.round(LONG.tokens * (await wordsPerToken(port))) : 0;
  await Bun.sleep(1500); // a pause in the log of steps: what came before it is not measured
  const before = await Page.of(port);
  const busyBeforeUs = busyUs(pid);
  const [seen, promptTokens] = await Promise.all([
    read({ port, body, streams, together: true, perStream: stamped }),
    words ? longPrompts(port, words) : 0,
  ]);
  const cpuUs = (busyUs(pid) - busyBeforeUs) / complete(seen, streams).events;
  const after = await Page.of(port);
  return {
    template,
    cpuUs,
    promptTokens,
    mergedEvents: streams * (tokens + template.events - 200) - seen.events,
    own: {
      lateMeanUs: after.since(before, "understudy_step_start_lateness_seconds").mean * 1e6,
      writeMeanUs: after.since(before, "understudy_step_write_seconds").mean * 1e6,
      rebasedS: after.value("understudy_clock_rebased_seconds_total"),
    },
  };
}

async function runAnchor({ streams, periodUs }: Case, tokens: number, template: Template) {
  const log = `${folder}/anchor-steps.f64`;
  const words = [program("anchor"), "--template", template.path, "--wait", String(streams), "--log", log];
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
  const seconds = has("--quick") ? 10 : 60;
  const results: unknown[] = [];
  for (const which of CASES) {
    const tokens = Math.round((seconds * 1e6) / which.periodUs);
    const name = `${which.streams} streams at ${which.periodUs / 1000} ms${has("--long-prompts") ? ", long prompts" : ""}`;
    progress(`${name}: control`);
    const before = await control(SERVER_CORE, which.periodUs, seconds / 4);
    progress(`${name}: understudy`);
    const ours = await runOurs(which, tokens);
    progress(`${name}: bare C loop`);
    const anchor = await runAnchor(which, tokens, ours.template);
    progress(`${name}: control`);
    const after = await control(SERVER_CORE, which.periodUs, seconds / 4);
    results.push({ ...which, seconds, ...judge(name, ours, anchor, [before, after]), ours, anchor, before, after });
  }
  return results;
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
  const lines = [
    bar("late p99 beyond the control", lateBeyondUs, BAR.lateP99Us, "µs"),
    bar("writing, p50, against the C loop", writeRatio, BAR.write, "×"),
    bar("worst stretch of a stream", ours.stretch * 100, BAR.stretch * 100, "%"),
  ];
  const worstBeyondUs = ours.steps.lateMaxUs - control.maxUs;
  if (ours.promptTokens > 0) {
    lines.push(bar(`worst step, prompts of ${Math.round(ours.promptTokens)} tokens`, worstBeyondUs, BAR.longUs, "µs"));
  }
  for (const line of lines) console.log(`  ${line}`);
  if (isVoid) console.log("  VOID: the control itself was late; the machine is too busy");
  if (ours.mergedEvents > 0)
    console.log(`  ${ours.mergedEvents} events were merged into others: the client fell behind`);
  return { isVoid, lateBeyondUs, worstBeyondUs, writeRatio };
}
