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
import { bars, figure, note, options, progress, save, table } from "./lib/bench.ts";
import { Page } from "./lib/client.ts";
import { quantile } from "./lib/numbers.ts";
import { bareServer, serve } from "./lib/servers.ts";

const { rounds, clients } = options({ rounds: 6, clients: 40 });

const BAR_MS = 20;
const TICK_MS = 20;
/** The clients of a round leave one after the other over this time, so that they leave at all phases of a step. */
const SPREAD_MS = 200;
const STALLED = 4;
/** Time until the kernel's buffers for a client that does not read, about 4 MB, are full of large events. */
const FILL_MS = 4000;
const PLACES = 64;
/** Length of a prompt whose prefill takes several steps. Each prompt has different tokens, so that none is cached. */
const PROMPT_TOKENS = 4096;

/** Phases in which clients leave. For `body`, clients leave one at a time and counters are polled. Else logs have the times. */
const PACED = ["body", "waiting", "prefill", "decode", "writes"] as const;
const PHASES = [...PACED, "blocked"] as const;
type Phase = (typeof PHASES)[number];

interface Target {
  readonly port: number;
  readonly request: (phase: Phase, id: string) => string;
  /** Returns a request that only occupies a place among the running sequences. */
  readonly other: () => string;
  /** Returns the number of clients whose departure the server has noticed. */
  readonly counted: () => Promise<number>;
}

const folder = mkdtempSync(join(tmpdir(), "understudy-notice-"));
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
    return ask({ stream: phase !== "decode", ...more }, id);
  },
  other: () => ask({ stream: true }, "other"),
  counted: async () => (await Page.of(port)).value("understudy_requests_total", 'outcome="abort"') || 0,
});

function bare(port: number): Target {
  let gone = 0;
  return {
    port,
    request: (phase, id) => posted(phase === "blocked" ? "/flood" : "/stream", { some: "body" }, header(id)),
    other: () => posted("/stream", {}),
    counted: async () => {
      const times = (await (await fetch(`http://127.0.0.1:${port}/gone`)).json()) as [string, number][];
      for (const [id, atUs] of times) match(id, atUs);
      gone += times.length;
      return gone;
    },
  };
}

/** Departures that no server has noticed, by request id. */
const left = new Map<string, { readonly key: string; readonly atUs: number }>();
/** Times until the server noticed a departure, in milliseconds. */
const noticed = new Map<string, number[]>();
let count = 0;

const remember = (key: string, ms: number) => void noticed.set(key, [...(noticed.get(key) ?? []), ms]);
function match(id: string, atUs: number): void {
  const departure = left.get(id);
  if (departure === undefined) return;
  left.delete(id);
  remember(departure.key, (atUs - departure.atUs) / 1000);
}

async function come({ port }: Target, text: string, paused = false): Promise<RawSocket> {
  const socket = await RawSocket.connect(port, { paused });
  socket.write(text);
  return socket;
}
const several = <T>(length: number, one: () => Promise<T>) => Promise.all(Array.from({ length }, one));

/** Connects some clients, which then leave one after the other. */
async function round(target: Target, key: string, phase: Phase, way: Way): Promise<void> {
  const isBlocked = phase === "blocked";
  const size = isBlocked ? STALLED : clients;
  const others = await several(phase === "waiting" ? PLACES : 0, () => come(target, target.other()));
  if (others.length > 0) await Bun.sleep(100);
  const sockets = await several(size, async () => {
    const id = `n${count++}`;
    return { id, socket: await come(target, target.request(phase, id), isBlocked) };
  });
  // Clients must leave during a prefill. In the other phases this is the time until all requests have reached the phase.
  await Bun.sleep(isBlocked ? FILL_MS : (phase === "prefill" ? 2 : 10) * TICK_MS);
  await Promise.all(
    sockets.map(async ({ id, socket }, i) => {
      await Bun.sleep((SPREAD_MS * i) / size);
      left.set(id, { key, atUs: nowUs() });
      socket.leave(way);
    }),
  );
  await Bun.sleep(100);
  for (const socket of [...sockets.map((each) => each.socket), ...others]) socket.destroy();
  await Bun.sleep(60);
  await target.counted();
}

/** Clients leave in the middle of their body, one at a time. */
async function bodies(target: Target, key: string, way: Way): Promise<void> {
  for (let i = 0; i < clients / 4; i++) {
    const before = await target.counted();
    const socket = await come(target, target.request("body", `n${count++}`).slice(0, -10));
    await Bun.sleep(5);
    const atUs = nowUs();
    socket.leave(way);
    while ((await target.counted()) <= before)
      if (nowUs() - atUs > 5e6) throw new Error(`${key}: not noticed within 5 s`);
    remember(key, (nowUs() - atUs) / 1000);
    socket.destroy();
  }
}

/** Measures our server in some phases, in turn with the bare one, and then reads its truth log. */
async function measure(control: Target, stepMs: number, phases: readonly Phase[]): Promise<void> {
  const log = join(folder, `${stepMs}.jsonl`);
  const server = await serve([
    ...["--served-model-name", "m", "--disable-uvicorn-access-log", "--truth-log", log],
    ...["--timing", `linear:base=${stepMs}ms,prefill=0ms,decode=0ms`, "--max-num-batched-tokens", "2048"],
    ...["--max-num-seqs", String(PLACES), "--max-model-len", "131072", "--num-gpu-blocks-override", "262144"],
  ]);
  try {
    for (let turn = 0; turn < rounds; turn++)
      for (const way of WAYS)
        for (const phase of phases) {
          progress(`notice: round ${turn + 1} of ${rounds}, ${phase}, ${way}`);
          for (const [name, target] of Object.entries({ control, ours: understudy(server.port) })) {
            const key = `${name} ${phase} ${way}`;
            await (phase === "body" ? bodies(target, key, way) : round(target, key, phase, way));
          }
        }
  } finally {
    await server.stop();
  }
  let epochUs = 0;
  for (const line of readFileSync(log, "utf8").trim().split("\n")) {
    const row = JSON.parse(line) as { type: string; epochUs: number; id: string; reason: string; endUs: number };
    if (row.type === "header") epochUs = row.epochUs;
    if (row.type === "request" && row.reason === "abort") match(row.id.slice("cmpl-".length, -2), epochUs + row.endUs);
  }
}

await using control = await bareServer("--tick-ms", String(TICK_MS));
try {
  await measure(bare(control.port), TICK_MS, PACED);
  await measure(bare(control.port), 1, ["blocked"]);
} finally {
  rmSync(folder, { recursive: true });
}

const summary = PHASES.flatMap((phase) =>
  WAYS.map((way) => {
    const [ours = [], theirs = []] = ["ours", "control"].map((name) => noticed.get(`${name} ${phase} ${way}`));
    const [p50, p99, controlP99] = [quantile(ours, 0.5), quantile(ours, 0.99), quantile(theirs, 0.99)];
    return { phase, way, controlP50: quantile(theirs, 0.5), figures: { p50, p99, controlP99, samples: ours.length } };
  }),
);
table("time until the server notices that a client left, ms", [
  ["", "samples", "p50", "p99", "control p50", "p99"],
  ...summary.map(({ phase, way, controlP50, figures: { samples, p50, p99, controlP99 } }) => [
    ...[`${phase}, ${way}`, samples, p50, p99, controlP50, controlP99],
  ]),
]);
const p99Of = (name: string) =>
  quantile(
    [...noticed].flatMap(([key, ms]) => (key.startsWith(name) ? ms : [])),
    0.99,
  );
const beyondMs = p99Of("ours") - p99Of("control");
bars(["p99 of all, minus that of the control", Math.max(0, beyondMs), BAR_MS, "ms"]);
note(`${left.size} of ${count} were not noticed or had ended before; p99 ${figure(p99Of("ours"))} ms`);
const figures = Object.fromEntries(summary.map(({ phase, way, figures }) => [`${phase} ${way}`, figures]));
save("notice", { rounds, clients, tickMs: TICK_MS, beyondMs, missed: left.size, figures });
