/**
 * Checks that a client that disconnects, in any phase and in any way, leaves no state and is counted once. The server runs in
 * this process, so that the test can check each turn of its event loop.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readlinkSync } from "node:fs";
import { type App, createApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import type { Outcome } from "../../src/engine/interface/types.ts";
import { eventually } from "../server.ts";
import { sampled } from "../size.ts";
import { posted, RawSocket, WAYS, type Way } from "./raw-socket.ts";

setDefaultTimeout(30_000);

const STEP_MS = 20;
const FLAGS = [
  "--served-model-name",
  "m",
  "--max-num-seqs",
  "4",
  "--max-num-batched-tokens",
  "64",
  "--reasoning-parser",
  "deepseek_r1",
  // Messages have no ignore_eos, so no answer may end by itself here.
  "--output-tokens",
  "constant:1000000",
];
const POOL = ["--max-model-len", "120000", "--num-gpu-blocks-override", "16384"];
const paced = `linear:base=${STEP_MS}ms,prefill=0ms,decode=0ms`;

async function start(timing: string): Promise<App> {
  const flags = [...FLAGS, ...POOL, "--timing", timing, "--port", "0"];
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return createApp(resolved.config, { log: () => {} });
}
let slow: App;
let fast: App;

/** Counts the open sockets of this process, which has both ends. */
function openSockets(): number {
  const isSocket = (fd: string) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith("socket:");
    } catch {
      return false; // closed in the meantime
    }
  };
  return readdirSync("/proc/self/fd").filter(isSocket).length;
}
const turn = () => new Promise<void>((done) => setImmediate(done));
const engine = (app: App) => app.snapshot().engines[0]!;
const front = (app: App) => app.snapshot().front;
const inEngine = (app: App) => {
  const { running, waiting, deferred } = engine(app);
  return running + waiting + deferred;
};

const completion = (fields: object) =>
  posted("/v1/completions", { model: "m", prompt: "Hello", ignore_eos: true, ...fields });
const LONG = Array.from({ length: 64 * 40 }, (_, i) => 100 + (i % 5000));

interface Phase {
  readonly name: string;
  /** True if the request is in the batch when the client disconnects, so that the core counts an abort. */
  readonly engine: boolean;
  readonly outcome: Outcome | null;
  readonly unpaced?: true;
  /** True if other requests occupy the four places of the batch. */
  readonly crowded?: true;
  readonly streams: readonly boolean[];
  readonly request: (stream: boolean) => string;
  readonly reached: (app: App, client: RawSocket) => boolean;
}

const body = (stream: boolean, fields: object = {}) => completion({ max_tokens: 4000, stream, ...fields });
const PHASES: readonly Phase[] = [
  {
    name: "before the head is complete",
    engine: false,
    outcome: null,
    streams: [true],
    request: (stream) => body(stream).slice(0, 60),
    reached: () => true,
  },
  {
    name: "before the body is complete",
    engine: false,
    outcome: "abort",
    streams: [true, false],
    request: (stream) => body(stream).slice(0, -20),
    reached: (app) => front(app).requestsOpen === 1,
  },
  {
    name: "before the head of the answer, while the prompt is encoded",
    engine: false,
    outcome: "abort",
    streams: [true, false],
    request: (stream) => body(stream, { prompt: "A word or two. ".repeat(20_000) }),
    reached: (app) => front(app).requestsOpen === 1,
  },
  {
    name: "waiting",
    engine: true,
    crowded: true,
    outcome: "abort",
    streams: [true, false],
    request: body,
    reached: (app) => engine(app).waiting === 1,
  },
  {
    name: "in its prefill",
    engine: true,
    outcome: "abort",
    streams: [true, false],
    request: (stream) => body(stream, { prompt: LONG }),
    reached: (app) => engine(app).running === 1 && engine(app).planPrefillTokens > 0 && engine(app).blocksUsed > 8,
  },
  {
    name: "decoding",
    engine: true,
    outcome: "abort",
    streams: [true, false],
    request: body,
    reached: (app) => engine(app).running === 1 && engine(app).planScheduled === 1 && engine(app).planPrefills === 0,
  },
  {
    name: "between two writes",
    engine: true,
    outcome: "abort",
    streams: [true],
    request: (stream) => body(stream, { stream_options: { include_usage: true } }),
    reached: (_, client) => client.text.split("data: ").length > 3,
  },
  {
    name: "while a write blocks",
    engine: true,
    unpaced: true,
    outcome: "abort",
    streams: [true],
    request: (stream) => body(stream, { max_tokens: 110_000 }),
    reached: (app) => front(app).bytesHeld > 0,
  },
  {
    name: "after the last chunk",
    engine: false,
    outcome: "length",
    streams: [true, false],
    request: (stream) => body(stream, { max_tokens: 2 }),
    reached: (_, client) => client.text.includes("\r\n0\r\n\r\n") || client.text.includes('"finish_reason":"length"'),
  },
];

/** Writes requests of a dialect and reads its answers. All dialects must end in the same way. */
interface DialectForm {
  readonly name: string;
  readonly ask: (fields: { readonly prompt?: string; readonly tokens: number; readonly stream: boolean }) => string;
  /** Text in the first pieces of a stream, and text in its end or in a whole answer. */
  readonly piece: string;
  readonly end: string;
}
const DIALECT_FORMS: readonly DialectForm[] = [
  {
    name: "chat that thinks",
    ask: ({ prompt = "Hello", tokens, stream }) => {
      const messages = [{ role: "user", content: prompt }];
      return posted("/v1/chat/completions", { model: "m", messages, max_tokens: tokens, stream, ignore_eos: true });
    },
    piece: '"reasoning":"',
    end: '"finish_reason":"length"',
  },
  {
    name: "messages",
    ask: ({ prompt = "Hello", tokens, stream }) =>
      posted("/v1/messages", { model: "m", messages: [{ role: "user", content: prompt }], max_tokens: tokens, stream }),
    piece: "content_block_delta",
    end: '"stop_reason":"max_tokens"',
  },
  {
    name: "responses",
    ask: ({ prompt = "Hello", tokens, stream }) =>
      posted("/v1/responses", { model: "m", input: prompt, max_output_tokens: tokens, stream }),
    piece: "_text.delta",
    end: '"status":"incomplete"',
  },
];

function phasesOf({ name, ask, piece, end }: DialectForm): Phase[] {
  const long = "A word or two. ".repeat(20_000);
  const open = { engine: true, outcome: "abort", streams: [true, false] } as const;
  const decodes = (app: App) =>
    engine(app).running === 1 && engine(app).planScheduled === 1 && engine(app).planPrefills === 0;
  return [
    {
      ...open,
      name: `${name}: while the prompt is encoded`,
      engine: false,
      request: (stream) => ask({ prompt: long, tokens: 4000, stream }),
      reached: (app) => front(app).requestsOpen === 1,
    },
    {
      ...open,
      name: `${name}: waiting`,
      crowded: true,
      request: (stream) => ask({ tokens: 4000, stream }),
      reached: (app) => engine(app).waiting === 1,
    },
    { ...open, name: `${name}: decoding`, request: (stream) => ask({ tokens: 4000, stream }), reached: decodes },
    {
      ...open,
      name: `${name}: between two events`,
      streams: [true],
      request: (stream) => ask({ tokens: 4000, stream }),
      reached: (_, client) => client.text.split(piece).length > 3,
    },
    {
      ...open,
      name: `${name}: while a write blocks`,
      unpaced: true,
      streams: [true],
      request: (stream) => ask({ tokens: 110_000, stream }),
      reached: (app) => front(app).bytesHeld > 0,
    },
    {
      name: `${name}: after the last event`,
      engine: false,
      outcome: "length",
      streams: [true, false],
      request: (stream) => ask({ tokens: 2, stream }),
      reached: (_, client) => client.text.includes("\r\n0\r\n\r\n") || client.text.includes(end),
    },
  ];
}
const ALL_PHASES = [...PHASES, ...sampled("leaving", DIALECT_FORMS, 1).flatMap(phasesOf)];

/** Starts four requests that occupy the batch. The returned function ends them. */
async function crowd(app: App): Promise<() => Promise<void>> {
  const port = portOf(app);
  const others = await Promise.all([0, 1, 2, 3].map(() => RawSocket.connect(port)));
  for (const other of others) other.write(body(true, { max_tokens: 100_000 }));
  await eventually(() => engine(app).running === 4);
  return async () => {
    for (const other of others) other.destroy();
    await eventually(() => front(app).requestsOpen === 0 && inEngine(app) === 0);
  };
}
const portOf = ({ url }: App) => Number(new URL(url).port);

async function leaveIn(phase: Phase, stream: boolean, way: Way): Promise<void> {
  const app = phase.unpaced ? fast : slow;
  const scatter = phase.crowded ? await crowd(app) : null;
  const before = { front: front(app), engine: engine(app) };
  const client = await RawSocket.connect(portOf(app), { paused: phase.unpaced === true });
  client.write(phase.request(stream));
  // Filling the buffers of both ends takes tens of thousands of events, so check only each hundredth turn.
  const looks = phase.unpaced ? 100 : 1;
  for (let turns = 0; turns % looks !== 0 || !phase.reached(app, client); turns++) {
    if (turns % 1000 === 999) await Bun.sleep(1);
    await turn();
  }
  if (phase.engine) expect(inEngine(app)).toBe(phase.crowded ? 5 : 1);
  client.leave(way);

  const open = before.front.requestsOpen;
  while (front(app).requestsOpen > open) await turn();
  const noticedAt = engine(app).iterations;
  const others = phase.crowded ? 4 : 0;
  while (inEngine(app) > others) await turn();
  // The engine handles an abort before the outcome of the running step.
  expect(engine(app).iterations - noticedAt).toBeLessThanOrEqual(1);
  await eventually(() => client.closed || way === "half");
  client.destroy();
  if (scatter) await scatter();

  const after = { front: front(app), engine: engine(app) };
  const { running, waiting, deferred, blocksUsed } = after.engine;
  expect({ running, waiting, deferred, blocksUsed }).toEqual({ running: 0, waiting: 0, deferred: 0, blocksUsed: 0 });
  const { requestsOpen, streamsOpen, bytesHeld } = after.front;
  expect({ requestsOpen, streamsOpen, bytesHeld }).toEqual({ requestsOpen: 0, streamsOpen: 0, bytesHeld: 0 });
  const moved = (outcome: Outcome) => after.front.outcomes[outcome] - before.front.outcomes[outcome];
  const expected = { stop: 0, length: 0, abort: others, refused: 0, error: 0 };
  if (phase.outcome !== null) expected[phase.outcome]++;
  expect(Object.fromEntries(Object.keys(expected).map((name) => [name, moved(name as Outcome)]))).toEqual(expected);
  const sum = (counts: readonly number[]) => counts.reduce((a, b) => a + b, 0);
  const ended = phase.engine || phase.outcome === "length" ? 1 : 0;
  expect(sum(after.engine.finished) - sum(before.engine.finished)).toBe(ended + others);
  const { duration } = after.front.http;
  expect(duration.count - before.front.http.duration.count).toBe((phase.outcome === null ? 0 : 1) + others);
}

describe("clients leave", () => {
  let sockets = 0;
  beforeAll(async () => {
    [slow, fast] = await Promise.all([start(paced), start("none")]);
    sockets = openSockets();
  });
  afterAll(() => Promise.all([slow.close(0), fast.close(0)]));

  for (const phase of ALL_PHASES)
    for (const stream of phase.streams)
      for (const way of WAYS)
        test(`${phase.name}, ${stream ? "streaming" : "plain"}, by ${way}`, () => leaveIn(phase, stream, way));

  test("all sockets except the listeners are closed", () => eventually(() => openSockets() <= sockets));
});
