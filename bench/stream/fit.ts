/**
 * Separates the CPU time of a request from that of its tokens. The CPU time of streams of 2 to 1,024 tokens is fitted as
 * a + b · tokens. The servers are this tree's, the bare C server, bare Elysia, bare `Bun.listen` and an earlier revision's
 * (`--base`). All are warm and run in turn. The reader never sleeps, so that no send pays for waking it.
 */
import { atRevision } from "../lib/base.ts";
import { fitted, median } from "../lib/numbers.ts";
import { has, number, text } from "../lib/options.ts";
import { finelyOf, program, type RunningServer, SERVER_CORE, serverCommand, start } from "../lib/process.ts";
import { chat } from "../lib/prompt.ts";
import { read } from "../lib/reader.ts";
import { bar, figure, progress, table } from "../lib/report.ts";
import { root } from "../lib/results.ts";
import { capture, type Template } from "./capture.ts";
import { FREE_FLAGS } from "./cpu.ts";

const CONNECTIONS = 64;
const TOKENS = [2, 4, 8, 16, 32, 64, 128, 256, 1024] as const;
/** Target CPU time per round and number of tokens, in microseconds. `GUESS` converts it to a number of requests. */
const SHARE_US = 300_000;
const GUESS = { requestUs: 50, tokenUs: 6 };
/** Tokens of the recorded answer. Other lengths repeat or cut its middle. */
const RECORDED = 200;
/** Numbers of tokens that the table shows. */
const SHOWN = [2, 8, 32, 128, 1024] as const;
/** Number of tokens of the streams whose reads per event the table shows. */
const LONG = 128;
const LOOP = "C loop";
const OURS = "understudy";
const BAR = { a: 3.6, b: 1.03, times: { 32: 1.16, 128: 1.06, 1024: 1.03 } };

/** A measured server. The C server needs one process per number of tokens. */
interface Candidate {
  readonly name: string;
  at(tokens: number): RunningServer;
  readonly all: readonly RunningServer[];
}

interface Cost {
  /** CPU time of the server per request. */
  readonly us: number;
  /** Sleeps of the reader per event. */
  readonly slept: number;
  /** Reads per event. If the reader falls behind, the kernel joins events, and sends cost the server less. */
  readonly reads: number;
}

async function cost({ pid, port }: RunningServer, tokens: number, shareUs: number): Promise<Cost> {
  const perRequestUs = GUESS.requestUs + GUESS.tokenUs * tokens;
  const requests = Math.max(1, Math.round(shareUs / perRequestUs / CONNECTIONS));
  const body = chat("Tell me about the weather.", tokens, { seed: 1 });
  const beforeUs = finelyOf(pid);
  const result = await read({ port, body, streams: CONNECTIONS, requests, awake: true });
  const us = finelyOf(pid) - beforeUs;
  const all = CONNECTIONS * requests;
  if (result.completed !== all || result.refused > 0) throw new Error(`${all} requests: ${JSON.stringify(result)}`);
  return { us: us / all, slept: result.slept / result.events, reads: result.recvs / result.events };
}

const single = (name: string, server: RunningServer): Candidate => ({ name, at: () => server, all: [server] });

async function loopOf(template: Template): Promise<Candidate> {
  const servers = new Map<number, RunningServer>();
  for (const tokens of TOKENS) {
    const events = tokens + template.units - RECORDED;
    const words = [program("anchor"), "--template", root + template.path, "--events", String(events)];
    servers.set(tokens, await start(words, { core: SERVER_CORE }));
  }
  return { name: LOOP, at: (tokens) => servers.get(tokens)!, all: [...servers.values()] };
}

async function candidates(base: string | null): Promise<Candidate[]> {
  const ours = await start(serverCommand(FREE_FLAGS), { core: SERVER_CORE });
  const found = [single(OURS, ours)];
  const body = chat("Tell me about the weather.", RECORDED, { seed: 1 });
  const template = await capture(ours.port, body, "fit");
  found.push(await loopOf(template));
  for (const kind of ["elysia", "listen"]) {
    const words = [process.execPath, "bench/stream/bare.ts", "--kind", kind, "--template", root + template.path];
    words.push("--beside", String(template.units - RECORDED));
    found.push(
      single(kind === "elysia" ? "bare Elysia" : "bare Bun.listen", await start(words, { core: SERVER_CORE })),
    );
  }
  if (has("--quiet-log"))
    found.push(
      single(
        "without the access log",
        await start(serverCommand([...FREE_FLAGS, "--disable-uvicorn-access-log"]), { core: SERVER_CORE }),
      ),
    );
  if (base !== null) {
    const words = [process.execPath, `${base}src/main.ts`, "serve", ...FREE_FLAGS];
    found.push(single(text("--base", ""), await start(words, { core: SERVER_CORE })));
  }
  return found;
}

/** Loads a server until it has used `seconds` of CPU time, by which its compilers have compiled most of the code. */
async function warmUp({ at, name }: Candidate, seconds: number): Promise<void> {
  if (name === LOOP) return;
  for (let [spentUs, i] = [0, 0]; spentUs < seconds * 1e6; i++) {
    progress(`fit: warming up ${name}`);
    const server = at(TOKENS[0]);
    const beforeUs = finelyOf(server.pid);
    await cost(server, TOKENS[i % 6]!, 1e6);
    spentUs += finelyOf(server.pid) - beforeUs;
  }
}

async function measured(base: string | null) {
  const rounds = number("--pairs", has("--quick") ? 3 : 7);
  const all = await candidates(base);
  const costs = new Map(all.map(({ name }) => [name, new Map<number, Cost[]>(TOKENS.map((tokens) => [tokens, []]))]));
  try {
    for (const candidate of all) await warmUp(candidate, number("--warm", has("--quick") ? 5 : 15));
    for (let round = 0; round < rounds; round++)
      for (const tokens of TOKENS) {
        progress(`fit: round ${round + 1} of ${rounds}, ${tokens} tokens`);
        const turn = round % all.length;
        for (const { name, at } of [...all.slice(turn), ...all.slice(0, turn)])
          costs
            .get(name)!
            .get(tokens)!
            .push(await cost(at(tokens), tokens, SHARE_US));
      }
  } finally {
    for (const { all: servers } of all) await Promise.all(servers.map((server) => server.stop()));
  }
  return summary(costs);
}

type Costs = ReadonlyMap<string, ReadonlyMap<number, readonly Cost[]>>;

function summary(costs: Costs) {
  const usOf = (name: string, tokens: number) =>
    median(
      costs
        .get(name)!
        .get(tokens)!
        .map(({ us }) => us),
    );
  /** A server's cost divided by that of the C server in the same round, median of the rounds. */
  const times = (name: string, tokens: number) =>
    median(
      costs
        .get(name)!
        .get(tokens)!
        .map(({ us }, i) => us / costs.get(LOOP)!.get(tokens)![i]!.us),
    );
  const rows = [...costs].map(([name, points]) => ({
    name,
    ...fitted(TOKENS.map((tokens) => [tokens, usOf(name, tokens)])),
    slept: Math.max(...[...points.values()].flat().map(({ slept }) => slept)),
    reads: median(points.get(LONG)!.map(({ reads }) => reads)),
    us: Object.fromEntries(TOKENS.map((tokens) => [tokens, usOf(name, tokens)])),
    times: Object.fromEntries(TOKENS.map((tokens) => [tokens, times(name, tokens)])),
  }));
  table(
    `CPU time of a warm server per request, µs, as a + b · tokens and for some lengths; sleeps and reads per event`,
    [
      ["", "a", "b", ...SHOWN.map(String), "slept", "reads"],
      ...rows.map(({ name, a, b, us, slept, reads }) => [
        ...[name, figure(a), figure(b), ...SHOWN.map((tokens) => figure(us[tokens]!))],
        ...[slept.toFixed(3), reads.toFixed(3)],
      ]),
    ],
  );
  table("CPU time ÷ the C loop's, by number of tokens", [
    ["", ...TOKENS.map(String)],
    ...rows.map(({ name, times }) => [name, ...TOKENS.map((tokens) => times[tokens]!.toFixed(2))]),
  ]);
  const of = (name: string) => rows.find((row) => row.name === name)!;
  console.log(`  ${bar("a ÷ the C loop's", of(OURS).a / of(LOOP).a, BAR.a, "×")}`);
  console.log(`  ${bar("b ÷ the C loop's", of(OURS).b / of(LOOP).b, BAR.b, "×")}`);
  for (const [tokens, most] of Object.entries(BAR.times))
    console.log(`  ${bar(`${tokens} tokens ÷ the C loop's`, of(OURS).times[tokens]!, most, "×")}`);
  return rows;
}

export const fit = () => (has("--base") ? atRevision(text("--base", ""), measured) : measured(null));
