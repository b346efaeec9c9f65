/**
 * Can one client hold up the others? The longest gap in fifty streams of a token every 20 ms while one request is answered
 * that is large in something, beside streams of the bare C loop on the same core in the same seconds: what is above its gap
 * is ours. RSS at most, and how long the one who sent it waits, alone and beside the streams.
 *
 *   bun run bench hold [--rows WORDS] [--streams 50] [--before FOLDER] [--no-save]
 *
 * `--rows`: those whose name has one of the words, which a semicolon parts. `--before`: another checkout, whose server is
 * sent each body too, alone: what the sender waited then. Each row's server is the same one; after a row it has a moment to
 * be as before, and what it holds then is told too. Then ten of them at once. Last, rows that missed are measured twice more,
 * and the middle one of the three counts. Beside each stands the longest pause of a collection of garbage in those seconds, by
 * the runtime's own log: a gap may be 25 ms where one is in it.
 */
import { connect } from "node:net";
import { Collections } from "./lib/collections.ts";
import { type Gaps, judged, moreRuns } from "./lib/gaps.ts";
import { AT_ONCE, HOLD_ROWS, type HoldRow } from "./lib/hold-rows.ts";
import { attack } from "./lib/http2-attacks.ts";
import { known, number, text } from "./lib/options.ts";
import { program, type Running, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { capture } from "./stream/capture.ts";

known(["--rows", "--streams", "--no-save", "--server", "--before"]);

const PERIOD_MS = 20;
const STREAMS = number("--streams", 50);
const wanted = text("--rows", "").split(";");
const before = text("--before", "");
const rows = HOLD_ROWS.filter(({ name }) => wanted.some((word) => name.includes(word)));
const ENDLESS = 100_000;
/** Streams are read so long before the request, and behind its answer. */
const AROUND_MS = 700;
/** As much longer may the request take beside streams. */
const SLOWER = 3;
/** The reading thread ends when it has had nothing to do for five seconds. */
const REST_MS = 6500;
const LOOK_MS = 100;
const SLOWER_BAR = 1.5;
const MOST_BAR_MB = 600;
const BACK_BAR_MB = 50;
const flags = [
  ...["--served-model-name", "m", "--disable-uvicorn-access-log", "--timing", `constant:ttft=20ms,itl=${PERIOD_MS}ms`],
  ...["--max-model-len", "262144", "--num-gpu-blocks-override", "1048576", "--max-num-seqs", "2048"],
  ...["--embedding-dimensions", "512"],
];
const body = chat("Tell me about the weather.", ENDLESS, { seed: 1 });

interface Sent {
  readonly status: string;
  readonly bytes: number;
  readonly ms: number;
}

/** An earlier server is waited for so long, which is then the least that its sender waits. */
const EARLIER_MOST_MS = 120_000;

const UNREAD_MS = 5000;

/** Requests one behind the other on a connection, the last of which closes it. */
function sendOnOne({ port }: Running, { path, count = 1, pipelined }: HoldRow): Promise<Sent> {
  const from = performance.now();
  const request = `GET ${path} HTTP/1.1\r\nHost: x\r\n`;
  const { promise, resolve, reject } = Promise.withResolvers<Sent>();
  const socket = connect({ port, host: "127.0.0.1" });
  let bytes = 0;
  let status = "none";
  socket.on("error", reject);
  socket.on("data", (data) => {
    if (bytes === 0) status = data.toString("latin1", 9, 12);
    bytes += data.length;
  });
  socket.on("close", () => resolve({ status, bytes, ms: performance.now() - from }));
  if (pipelined === "unread") {
    socket.pause();
    setTimeout(() => socket.resetAndDestroy(), UNREAD_MS);
  }
  socket.write(`${`${request}\r\n`.repeat(count - 1)}${request}Connection: close\r\n\r\n`);
  return promise;
}

async function attackWith({ frames, port }: NonNullable<HoldRow["attack"]>, path: string): Promise<Sent> {
  const from = performance.now();
  const status = await attack(frames, port, path);
  return { status, bytes: 0, ms: performance.now() - from };
}

/** Sends the row's requests and reads their answers. */
async function send(server: Running, row: HoldRow, sent: string, signal: AbortSignal | null = null): Promise<Sent> {
  if (row.pipelined !== undefined) return sendOnOne(server, row);
  if (row.attack !== undefined) return attackWith(row.attack, row.path);
  const { path, count = 1, method } = row;
  const { port } = server;
  const from = performance.now();
  const answers = await Promise.all(
    Array.from({ length: count }, async () => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(
        `http://127.0.0.1:${port}${path}`,
        method === "GET" ? { signal } : { method: "POST", headers, body: sent, signal },
      );
      let bytes = 0;
      for await (const part of answer.body ?? []) bytes += part.length;
      return { status: answer.status, bytes };
    }),
  );
  const status = [...new Set(answers.map((one) => one.status))].join(" ");
  return { status, bytes: answers.reduce((sum, one) => sum + one.bytes, 0), ms: performance.now() - from };
}

/** The longest gap of streams, milliseconds. */
async function gapOf({ port }: Running, durationMs: number): Promise<number> {
  const seen = await read({ port, body, streams: STREAMS, durationMs, gaps: true });
  if (seen.refused > 0 || seen.errors > 0 || seen.events === 0) throw new Error(JSON.stringify(seen));
  return seen.gapUs!.max / 1000;
}

/** A server, and the log of its collections. */
interface Watched {
  readonly server: Running;
  readonly collections: Collections;
}

async function watched(name: string, more: readonly string[]): Promise<Watched> {
  const collections = new Collections(name);
  return {
    server: await start(serverCommand([...flags, ...more]), { core: SERVER_CORE, ...collections.start }),
    collections,
  };
}

/** What the sender of each waits while the streams go on, and what those see of it. */
async function beside({ server, collections }: Watched, anchor: Running, aloneMs: number, all: () => Promise<Sent[]>) {
  const before = residentBytes(server.pid);
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, residentBytes(server.pid));
  }, 20);
  const durationMs = Math.ceil(2 * AROUND_MS + SLOWER * aloneMs);
  collections.longestMs();
  const reading = Promise.all([gapOf(server, durationMs), gapOf(anchor, durationMs)]);
  await Bun.sleep(AROUND_MS);
  const sent = await all();
  const [gapMs, controlMs] = await reading;
  clearInterval(watch);
  const collectionMs = collections.longestMs();
  let after = residentBytes(server.pid);
  for (let ms = 0; ms < REST_MS && after > before + BACK_BAR_MB * 1e6; ms += LOOK_MS) {
    await Bun.sleep(LOOK_MS);
    after = residentBytes(server.pid);
  }
  const memory = { beforeMb: before / 1e6, mostMb: most / 1e6, afterMb: after / 1e6 };
  return { gapMs, controlMs, collectionMs, ...memory, sent };
}

/** How long the sender waits at the earlier server, milliseconds; null: there is none. A fresh server for each row: an answer may not end. */
async function earlierMsOf(row: HoldRow, body: string): Promise<number | null> {
  // Rows of fields are many, and like each other.
  if (before === "" || row.name.includes(":")) return null;
  const command = [process.execPath, `${before}/src/main.ts`, "serve", ...flags, ...(row.flags ?? [])];
  const earlier = await start(command, { core: SERVER_CORE });
  try {
    return (await send(earlier, row, body, AbortSignal.timeout(EARLIER_MOST_MS))).ms;
  } catch (why) {
    if ((why as Error).name !== "TimeoutError") throw why;
    return EARLIER_MOST_MS;
  } finally {
    process.kill(earlier.pid, "SIGKILL");
  }
}

async function measure(held: Watched, anchor: Running, row: HoldRow, repeated = false) {
  progress(`hold: ${row.name}`);
  const body = row.body();
  const alone = await send(held.server, row, body);
  const earlierMs = repeated ? null : await earlierMsOf(row, body);
  const { sent, ...seen } = await beside(held, anchor, alone.ms, async () => [await send(held.server, row, body)]);
  return { name: row.name, alone, beside: sent[0]!, earlierMs, ...seen };
}

async function measureAtOnce(held: Watched, anchor: Running, found: readonly { name: string; alone: Sent }[]) {
  const those = HOLD_ROWS.filter(({ name }) => AT_ONCE.includes(name)).map((row) => ({ row, body: row.body() }));
  const aloneMs = those.reduce((sum, { row }) => sum + found.find(({ name }) => name === row.name)!.alone.ms, 0);
  return beside(held, anchor, aloneMs, () => Promise.all(those.map(({ row, body }) => send(held.server, row, body))));
}

const common = await watched("hold", []);
/** With the server that the row needs. */
async function on<T>({ flags: more = [] }: HoldRow, act: (held: Watched) => Promise<T>): Promise<T> {
  if (more.length === 0) return act(common);
  const own = await watched("hold-own", more);
  try {
    return await act(own);
  } finally {
    await own.server.stop();
  }
}

const again = new Map<string, Gaps[]>();
const found: Awaited<ReturnType<typeof measure>>[] = [];
let atOnce: Awaited<ReturnType<typeof measureAtOnce>> | null = null;
try {
  const { path } = await capture(common.server.port, chat("Tell me about the weather.", 50), "hold");
  const command = [program("anchor"), "--template", root + path, "--events", String(ENDLESS)];
  const anchor = await start([...command, "--period-us", String(PERIOD_MS * 1000)], { core: SERVER_CORE });
  try {
    for (const row of rows) found.push(await on(row, (held) => measure(held, anchor, row)));
    if (AT_ONCE.every((name) => found.some((row) => row.name === name)))
      atOnce = await measureAtOnce(common, anchor, found);
    for (const [at, row] of rows.entries()) {
      const runs = await moreRuns(found[at]!, () => on(row, (held) => measure(held, anchor, row, true)));
      if (runs.length > 0) again.set(row.name, runs);
    }
  } finally {
    await anchor.stop();
  }
} finally {
  await common.server.stop();
}
table(`beside ${STREAMS} streams of a token every ${PERIOD_MS} ms`, [
  [
    "",
    "status",
    "answer MB",
    "alone ms",
    "before ms",
    "beside ms",
    "gap ms",
    "C loop's",
    "pause ms",
    "RSS MB",
    "at most",
    "then",
  ],
  ...found.map(({ name, alone, beside, earlierMs, gapMs, controlMs, collectionMs, beforeMb, mostMb, afterMb }) => [
    ...[name, beside.status, beside.bytes / 1e6, alone.ms, earlierMs ?? Number.NaN, beside.ms, gapMs, controlMs],
    ...[collectionMs, beforeMb, mostMb, afterMb],
  ]),
]);
for (const row of found) console.log(`  ${judged(row.name, [row, ...(again.get(row.name) ?? [])])}`);
for (const { name, alone, earlierMs } of found)
  if (earlierMs !== null) console.log(`  ${bar(`${name}: alone / before`, alone.ms / earlierMs, SLOWER_BAR, "x")}`);
const all = atOnce === null ? found : [...found, atOnce];
if (atOnce !== null) console.log(`  ${judged("ten at once", [atOnce])}`);
console.log(`  ${bar("RSS at most", Math.max(...all.map(({ mostMb }) => mostMb)), MOST_BAR_MB, "MB")}`);
console.log(
  `  ${bar("RSS then, above that before", Math.max(...all.map((one) => one.afterMb - one.beforeMb)), BACK_BAR_MB, "MB")}`,
);
save("hold", { streams: STREAMS, periodMs: PERIOD_MS, rows: found, atOnce, again: Object.fromEntries(again) });
