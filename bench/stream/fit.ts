/**
 * Separates the CPU time of a request from that of its tokens. The CPU time of streams of 2 to 1,024 tokens is fitted as
 * a + b · tokens. The servers are this tree's, the bare C server, bare Elysia, bare `Bun.listen` and an earlier revision's
 * (`--base`). All are warm and run in turn. The reader never sleeps, so that no send pays for waking it.
 */
import { atRevision } from "../lib/base.ts";
import { bars, figure, has, number, progress, root, table, text } from "../lib/bench.ts";
import { complete, read, sameChat } from "../lib/client.ts";
import { fitted, median, medianRatio } from "../lib/numbers.ts";
import { inTurns, type RunningServer, serve, start, withCpu } from "../lib/servers.ts";
import { capture, startLoop } from "./capture.ts";
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

/** Servers by name and number of tokens. Only the C server needs one process per number. */
type Candidates = Record<string, (tokens: number) => RunningServer>;

interface Cost {
  /** CPU time of the server per request. */
  readonly us: number;
  /** Sleeps of the reader per event. */
  readonly slept: number;
  /** Reads per event. If the reader falls behind, the kernel joins events, and sends cost the server less. */
  readonly reads: number;
}

async function cost(server: RunningServer, tokens: number, shareUs: number): Promise<Cost> {
  const perRequestUs = GUESS.requestUs + GUESS.tokenUs * tokens;
  const requests = Math.max(1, Math.round(shareUs / perRequestUs / CONNECTIONS));
  const all = CONNECTIONS * requests;
  const asked = { port: server.port, body: sameChat(tokens), streams: CONNECTIONS, requests, awake: true };
  const { result, us } = await withCpu(server, async () => complete(await read(asked), all));
  return { us: us / all, slept: result.slept / result.events, reads: result.recvs / result.events };
}

async function candidates(base: string | null, stack: AsyncDisposableStack): Promise<Candidates> {
  const found: Candidates = {};
  const add = async (name: string, starting: Promise<RunningServer>) => {
    const server = stack.use(await starting);
    found[name] = () => server;
    return server;
  };
  const ours = await add(OURS, serve(FREE_FLAGS));
  const template = await capture(ours.port, sameChat(RECORDED), "fit");
  const beside = template.units - RECORDED;
  const loops = new Map<number, RunningServer>();
  for (const tokens of TOKENS) loops.set(tokens, stack.use(await startLoop(template, { events: tokens + beside })));
  found[LOOP] = (tokens) => loops.get(tokens)!;
  for (const [kind, name] of [["elysia", "bare Elysia"] as const, ["listen", "bare Bun.listen"] as const]) {
    const words = ["--kind", kind, "--dump", `${root}build/bench/fit.dump`, "--beside", String(beside)];
    await add(name, start([process.execPath, "bench/stream/bare.ts", ...words]));
  }
  if (has("--quiet-log")) await add("without the access log", serve([...FREE_FLAGS, "--disable-uvicorn-access-log"]));
  if (base !== null)
    await add(text("--base", ""), start([process.execPath, `${base}src/main.ts`, "serve", ...FREE_FLAGS]));
  return found;
}

/** Loads a server until it has used `seconds` of CPU time, by which its compilers have compiled most of the code. */
async function warmUp(name: string, server: RunningServer, seconds: number): Promise<void> {
  progress(`fit: warming up ${name}`);
  for (let [spentUs, i] = [0, 0]; spentUs < seconds * 1e6; i++)
    spentUs += (await withCpu(server, () => cost(server, TOKENS[i % 6]!, 1e6))).us;
}

async function measured(base: string | null) {
  await using stack = new AsyncDisposableStack();
  const all = await candidates(base, stack);
  for (const [name, at] of Object.entries(all))
    if (name !== LOOP) await warmUp(name, at(TOKENS[0]), number("--warm", has("--quick") ? 5 : 15));
  const costs: Costs = {};
  for (const tokens of TOKENS) {
    const contenders = Object.entries(all).map(([name, at]) => [name, () => cost(at(tokens), tokens, SHARE_US)]);
    const rounds = number("--pairs", has("--quick") ? 3 : 7);
    costs[tokens] = await inTurns(`fit: ${tokens} tokens`, rounds, Object.fromEntries(contenders));
  }
  return summary(Object.keys(all), costs);
}

/** Costs by number of tokens and name of the server. */
type Costs = Record<number, Readonly<Record<string, readonly Cost[]>>>;

function summary(names: readonly string[], costs: Costs) {
  const of = (name: string, tokens: number, key: keyof Cost) => costs[tokens]![name]!.map((cost) => cost[key]);
  const perTokens = (make: (tokens: number) => number) =>
    Object.fromEntries(TOKENS.map((tokens) => [tokens, make(tokens)])) as Record<number, number>;
  const rows = names.map((name) => {
    const us = perTokens((tokens) => median(of(name, tokens, "us")));
    return {
      name,
      ...fitted(TOKENS.map((tokens) => [tokens, us[tokens]!])),
      slept: Math.max(...TOKENS.flatMap((tokens) => of(name, tokens, "slept"))),
      reads: median(of(name, LONG, "reads")),
      us,
      times: perTokens((tokens) => medianRatio(of(name, tokens, "us"), of(LOOP, tokens, "us"))),
    };
  });
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
  const [ours, loop] = [OURS, LOOP].map((wanted) => rows.find(({ name }) => name === wanted)!);
  bars(["a ÷ the C loop's", ours!.a / loop!.a, BAR.a, "×"], ["b ÷ the C loop's", ours!.b / loop!.b, BAR.b, "×"]);
  for (const [tokens, most] of Object.entries(BAR.times))
    bars([`${tokens} tokens ÷ the C loop's`, ours!.times[Number(tokens)]!, most, "×"]);
  return rows;
}

export const fit = () => (has("--base") ? atRevision(text("--base", ""), measured) : measured(null));
