/**
 * Measures how soon the server notices that a client left, in each phase of a request, by FIN, half-close and RST. A bare
 * `Bun.serve` that sends events at the same pace is measured, too, because the kernel, the runtime and the client delay both.
 *
 *   bun run bench notice [--rounds 6] [--clients 40] [--no-save]
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { posted, RawSocket, WAYS, type Way } from "../test/conformance/raw-socket.ts";
import { quantile } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { type RunningServer, SERVER_CORE, start } from "./lib/process.ts";
import { bar, figure, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--clients", "--no-save"]);

const BAR_MS = 20;
const TICK_MS = 20;
/** The clients of a round leave one after the other over this time, so that they leave at all phases of a step. */
const SPREAD_MS = 200;
const rounds = number("--rounds", 6);
const clients = number("--clients", 40);
const STALLED = 4;
/** Time until the kernel's buffers for a client that does not read, about 4 MB, are full of large events. */
const FILL_MS = 4000;
const PLACES = 64;
/** Length of a prompt whose prefill takes several steps. Each prompt has different tokens, so that none is cached. */
const PROMPT_TOKENS = 4096;

const folder = mkdtempSync(join(tmpdir(), "understudy-notice-"));
const ours = (timing: string, log: string) => [
  ...[process.execPath, "src/main.ts", "serve", "--served-model-name", "m", "--disable-uvicorn-access-log"],
  ...["--timing", timing, "--max-num-seqs", String(PLACES), "--max-num-batched-tokens", "2048"],
  ...["--max-model-len", "131072", "--num-gpu-blocks-override", "262144", "--truth-log", join(folder, log)],
];
const PACED = "paced.jsonl";
const FAST = "fast.jsonl";

interface Target {
  readonly port: number;
  readonly request: (phase: Phase, id: string) => string;
  /** Returns a request that only occupies a place among the running sequences. */
  readonly other: () => string;
}
type Phase = "body" | "waiting" | "prefill" | "decode" | "writes" | "blocked";
/** Phases in which clients leave. For `body`, clients leave one at a time and counters are polled. Else logs have the times. */
const PHASES: readonly Phase[] = ["body", "waiting", "prefill", "decode", "writes", "blocked"];

const nowUs = () => (performance.timeOrigin + performance.now()) * 1000;
const header = (id: string) => [`X-Request-Id: ${id}`];
const ask = (fields: object, id: string) =>
  posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 120_000, ignore_eos: true, ...fields }, header(id));
let prompts = 0;
const ownPrompt = () => Array.from({ length: PROMPT_TOKENS }, (_, i) => 100 + ((++prompts * 7 + i * 13) % 90_000));

const understudy = (port: number): Target => ({
  port,
  request: (phase, id) => {
    const more = { prefill: { prompt: ownPrompt() }, blocked: { logprobs: 20 } }[phase as string];
    const whole = ask({ stream: phase !== "decode", ...more }, id);
    return phase === "body" ? whole.slice(0, -10) : whole;
  },
  other: () => ask({ stream: true }, "other"),
});
const bare = (port: number): Target => ({
  port,
  request: (phase, id) => {
    const whole = posted(phase === "blocked" ? "/flood" : "/stream", { some: "body" }, header(id));
    return phase === "body" ? whole.slice(0, -10) : whole;
  },
  other: () => posted("/stream", {}),
});

const left = new Map<string, { key: string; atUs: number }>();
const noticed = new Map<string, number[]>();
let count = 0;

/** Connects some clients, which then leave one after the other. */
async function round(target: Target, key: string, phase: Phase, way: Way): Promise<void> {
  const size = phase === "blocked" ? STALLED : clients;
  const others =
    phase === "waiting" ? await Promise.all(Array.from({ length: PLACES }, () => come(target.other()))) : [];
  if (others.length > 0) await Bun.sleep(100);
  async function come(text: string) {
    const socket = await RawSocket.connect(target.port, { paused: phase === "blocked" });
    socket.write(text);
    return socket;
  }
  const sockets = await Promise.all(
    Array.from({ length: size }, async () => {
      const id = `n${count++}`;
      return { id, socket: await come(target.request(phase, id)) };
    }),
  );
  // Clients must leave during a prefill. In the other phases this is the time until all requests have reached the phase.
  const settledMs = {
    body: 0,
    prefill: 2 * TICK_MS,
    waiting: 10 * TICK_MS,
    decode: 10 * TICK_MS,
    writes: 10 * TICK_MS,
  };
  await Bun.sleep(phase === "blocked" ? FILL_MS : settledMs[phase]);
  await Promise.all(
    sockets.map(async ({ id, socket }, i) => {
      await Bun.sleep((SPREAD_MS * i) / size);
      left.set(id, { key, atUs: nowUs() });
      socket.leave(way);
    }),
  );
  await Bun.sleep(100);
  for (const { socket } of sockets) socket.destroy();
  for (const other of others) other.destroy();
  await Bun.sleep(60);
}

/** Clients leave in the middle of their body, one at a time. `counted` returns the number that the server has noticed. */
async function bodies(target: Target, key: string, way: Way, counted: () => Promise<number>): Promise<void> {
  for (let i = 0; i < clients / 4; i++) {
    const before = await counted();
    const socket = await RawSocket.connect(target.port);
    socket.write(target.request("body", `n${count++}`));
    await Bun.sleep(5);
    const atUs = nowUs();
    socket.leave(way);
    while ((await counted()) <= before) if (nowUs() - atUs > 5e6) throw new Error(`${key}: not noticed within 5 s`);
    note(key, (nowUs() - atUs) / 1000);
    socket.destroy();
  }
}

function note(key: string, ms: number): void {
  const list = noticed.get(key) ?? [];
  noticed.set(key, list);
  list.push(ms);
}

let goneBefore = 0;
async function controlGone(port: number): Promise<number> {
  const times = (await (await fetch(`http://127.0.0.1:${port}/gone`)).json()) as [string, number][];
  for (const [id, atUs] of times) match(id, atUs);
  goneBefore += times.length;
  return goneBefore;
}
function match(id: string, atUs: number): void {
  const departure = left.get(id);
  if (departure === undefined) return;
  left.delete(id);
  note(departure.key, (atUs - departure.atUs) / 1000);
}
const aborts = async (port: number) => (await Page.of(port)).value("understudy_requests_total", 'outcome="abort"') || 0;

function readTruth(log: string): void {
  let epochUs = 0;
  for (const line of readFileSync(join(folder, log), "utf8").trim().split("\n")) {
    const row = JSON.parse(line) as { type: string; epochUs: number; id: string; reason: string; endUs: number };
    if (row.type === "header") epochUs = row.epochUs;
    if (row.type === "request" && row.reason === "abort") match(row.id.slice("cmpl-".length, -2), epochUs + row.endUs);
  }
}

const servers: RunningServer[] = [];
const run = async (command: string[]) => {
  const server = await start(command, { core: SERVER_CORE });
  servers.push(server);
  return server;
};
const keyOf = (prefix: string, phase: string, way: string) => `${prefix} ${phase} ${way}`;
try {
  const control = await run([process.execPath, "bench/lib/bare-server.ts", "--tick-ms", String(TICK_MS)]);
  const paced = await run(ours(`linear:base=${TICK_MS}ms,prefill=0ms,decode=0ms`, PACED));
  for (let turn = 0; turn < rounds; turn++) {
    for (const way of WAYS) {
      for (const phase of PHASES) {
        if (phase === "blocked") continue;
        progress(`notice: round ${turn + 1} of ${rounds}, ${phase}, ${way}`);
        if (phase === "body") {
          await bodies(bare(control.port), keyOf("control", phase, way), way, () => controlGone(control.port));
          await bodies(understudy(paced.port), keyOf("ours", phase, way), way, () => aborts(paced.port));
          continue;
        }
        await round(bare(control.port), keyOf("control", phase, way), phase, way);
        await controlGone(control.port);
        await round(understudy(paced.port), keyOf("ours", phase, way), phase, way);
      }
    }
  }
  await paced.stop();
  servers.splice(servers.indexOf(paced), 1);
  readTruth(PACED);
  const fast = await run(ours("linear:base=1ms,prefill=0ms,decode=0ms", FAST));
  for (let turn = 0; turn < rounds; turn++) {
    for (const way of WAYS) {
      progress(`notice: round ${turn + 1} of ${rounds}, blocked, ${way}`);
      await round(bare(control.port), keyOf("control", "blocked", way), "blocked", way);
      await controlGone(control.port);
      await round(understudy(fast.port), keyOf("ours", "blocked", way), "blocked", way);
    }
  }
  await fast.stop();
  servers.splice(servers.indexOf(fast), 1);
  readTruth(FAST);
} finally {
  for (const server of servers) await server.stop();
  rmSync(folder, { recursive: true });
}

const rows: (string | number)[][] = [];
const figures: Record<string, { p50: number; p99: number; controlP99: number; samples: number }> = {};
for (const phase of PHASES) {
  for (const way of WAYS) {
    const [mine, theirs] = ["ours", "control"].map((prefix) => noticed.get(keyOf(prefix, phase, way)) ?? []);
    const figures99 = { p50: quantile(mine!, 0.5), p99: quantile(mine!, 0.99), controlP99: quantile(theirs!, 0.99) };
    figures[`${phase} ${way}`] = { ...figures99, samples: mine!.length };
    rows.push([
      `${phase}, ${way}`,
      mine!.length,
      figures99.p50,
      figures99.p99,
      quantile(theirs!, 0.5),
      figures99.controlP99,
    ]);
  }
}
table("time until the server notices that a client left, ms", [
  ["", "samples", "p50", "p99", "control p50", "p99"],
  ...rows,
]);
const all = (prefix: string) => [...noticed].filter(([key]) => key.startsWith(prefix)).flatMap(([, ms]) => ms);
const beyondMs = quantile(all("ours"), 0.99) - quantile(all("control"), 0.99);
console.log(`  ${bar("p99 of all, minus that of the control", Math.max(0, beyondMs), BAR_MS, "ms")}`);
console.log(
  `  ${left.size} of ${count} were not noticed or had ended before; p99 ${figure(quantile(all("ours"), 0.99))} ms`,
);
save("notice", { rounds, clients, tickMs: TICK_MS, beyondMs, missed: left.size, figures });
