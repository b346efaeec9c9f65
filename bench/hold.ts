/**
 * Measures whether one client can delay the others. Fifty streams receive a token every 20 ms while another client sends a large
 * request. The bench compares the streams' longest gap with that of streams from the bare C server on the same core at the same
 * time. It also reports the largest RSS, and the time that the client waits, alone and together with the streams.
 *
 *   bun run bench hold [--rows WORDS] [--streams 50] [--before FOLDER] [--no-save]
 *
 * `--rows`: only rows whose name contains one of the words, which are separated by semicolons. `--before`: another checkout,
 * whose server also receives each body, so that the waiting times can be compared.
 *
 * All rows without their own flags share one server. After each row the server gets a few seconds to free its memory, and the
 * bench reports the rest. Then ten rows run at once. A row that exceeds its bound is measured twice more, and the median of the
 * three counts. If a garbage collection falls into the time (by the runtime's log), the gap may be 25 ms longer.
 */
import { connect } from "node:net";
import { Collections } from "./lib/collections.ts";
import { type Gaps, judged, moreRuns } from "./lib/gaps.ts";
import { AT_ONCE, HOLD_ROWS, type HoldRow } from "./lib/hold-rows.ts";
import { attack } from "./lib/http2-attacks.ts";
import { number, rejectUnknown, text } from "./lib/options.ts";
import { program, type RunningServer, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { capture } from "./stream/capture.ts";

rejectUnknown(["--rows", "--streams", "--no-save", "--server", "--before"]);

const PERIOD_MS = 20;
const STREAMS = number("--streams", 50);
const wanted = text("--rows", "").split(";");
const before = text("--before", "");
const rows = HOLD_ROWS.filter(({ name }) => wanted.some((word) => name.includes(word)));
const ENDLESS = 100_000;
/** Time for which streams are read before the request, and after its answer. */
const AROUND_MS = 700;
/** The streams are read for this multiple of the time that the request takes alone. */
const SLOWER = 3;
/** Longest time in which the server may free its memory. Its reading thread ends after five idle seconds. */
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

/** The answers to the requests of a row. `status` has each distinct status once. `ms` is the time that the client waited. */
interface Answer {
  readonly status: string;
  readonly bytes: number;
  readonly ms: number;
}

/** Bound on the wait for the server of `--before`. A longer wait counts as this long. */
const EARLIER_MOST_MS = 120_000;

/** Time for which a client that does not read stays connected. */
const UNREAD_MS = 5000;

/** Sends pipelined requests on one connection, the last with `Connection: close`. */
function sendOnOne({ port }: RunningServer, { path, count = 1, pipelined }: HoldRow): Promise<Answer> {
  const from = performance.now();
  const request = `GET ${path} HTTP/1.1\r\nHost: x\r\n`;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
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

async function attackWith({ frames, port }: NonNullable<HoldRow["attack"]>, path: string): Promise<Answer> {
  const from = performance.now();
  const status = await attack(frames, port, path);
  return { status, bytes: 0, ms: performance.now() - from };
}

/** Sends the row's requests and reads their answers. */
async function send(
  server: RunningServer,
  row: HoldRow,
  sent: string,
  signal: AbortSignal | null = null,
): Promise<Answer> {
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
  const status = [...new Set(answers.map((answer) => answer.status))].join(" ");
  return { status, bytes: answers.reduce((sum, { bytes }) => sum + bytes, 0), ms: performance.now() - from };
}

/** Returns the longest gap of the streams, in milliseconds. */
async function gapOf({ port }: RunningServer, durationMs: number): Promise<number> {
  const result = await read({ port, body, streams: STREAMS, durationMs, gaps: true });
  if (result.refused > 0 || result.errors > 0 || result.events === 0) throw new Error(JSON.stringify(result));
  return result.gapUs!.max / 1000;
}

/** A server, and the log of its garbage collections. */
interface LoggedServer {
  readonly server: RunningServer;
  readonly collections: Collections;
}

async function startLogged(name: string, more: readonly string[]): Promise<LoggedServer> {
  const collections = new Collections(name);
  return {
    server: await start(serverCommand([...flags, ...more]), { core: SERVER_CORE, ...collections.start }),
    collections,
  };
}

/** Runs `all` while streams are read. Returns its answers, the streams' longest gaps, and the memory of the server. */
async function duringStreams(
  { server, collections }: LoggedServer,
  anchor: RunningServer,
  aloneMs: number,
  all: () => Promise<Answer[]>,
) {
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

/**
 * Returns the time, in milliseconds, that the client waits at the server of `--before`. Null without `--before`. Each row gets a
 * new server, because an answer of an earlier one may never end.
 */
async function earlierMsOf(row: HoldRow, body: string): Promise<number | null> {
  // There are many rows about fields, and they resemble each other.
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

async function measure(logged: LoggedServer, anchor: RunningServer, row: HoldRow, repeated = false) {
  progress(`hold: ${row.name}`);
  const body = row.body();
  const alone = await send(logged.server, row, body);
  const earlierMs = repeated ? null : await earlierMsOf(row, body);
  const { sent, ...seen } = await duringStreams(logged, anchor, alone.ms, async () => [
    await send(logged.server, row, body),
  ]);
  return { name: row.name, alone, beside: sent[0]!, earlierMs, ...seen };
}

async function measureAtOnce(
  logged: LoggedServer,
  anchor: RunningServer,
  found: readonly { name: string; alone: Answer }[],
) {
  const ten = HOLD_ROWS.filter(({ name }) => AT_ONCE.includes(name)).map((row) => ({ row, body: row.body() }));
  const aloneMs = ten.reduce((sum, { row }) => sum + found.find(({ name }) => name === row.name)!.alone.ms, 0);
  return duringStreams(logged, anchor, aloneMs, () =>
    Promise.all(ten.map(({ row, body }) => send(logged.server, row, body))),
  );
}

const common = await startLogged("hold", []);
/** Runs `act` with a server that has the row's flags. */
async function on<T>({ flags: more = [] }: HoldRow, act: (logged: LoggedServer) => Promise<T>): Promise<T> {
  if (more.length === 0) return act(common);
  const separate = await startLogged("hold-own", more);
  try {
    return await act(separate);
  } finally {
    await separate.server.stop();
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
    for (const row of rows) found.push(await on(row, (logged) => measure(logged, anchor, row)));
    if (AT_ONCE.every((name) => found.some((row) => row.name === name)))
      atOnce = await measureAtOnce(common, anchor, found);
    for (const [at, row] of rows.entries()) {
      const runs = await moreRuns(found[at]!, () => on(row, (logged) => measure(logged, anchor, row, true)));
      if (runs.length > 0) again.set(row.name, runs);
    }
  } finally {
    await anchor.stop();
  }
} finally {
  await common.server.stop();
}
table(`during ${STREAMS} streams of a token every ${PERIOD_MS} ms`, [
  [
    "",
    "status",
    "answer MB",
    "client alone ms",
    "at --before ms",
    "with streams ms",
    "gap ms",
    "C server's gap",
    "collection ms",
    "RSS MB",
    "largest",
    "after",
  ],
  ...found.map(({ name, alone, beside, earlierMs, gapMs, controlMs, collectionMs, beforeMb, mostMb, afterMb }) => [
    ...[name, beside.status, beside.bytes / 1e6, alone.ms, earlierMs ?? Number.NaN, beside.ms, gapMs, controlMs],
    ...[collectionMs, beforeMb, mostMb, afterMb],
  ]),
]);
for (const row of found) console.log(`  ${judged(row.name, [row, ...(again.get(row.name) ?? [])])}`);
for (const { name, alone, earlierMs } of found)
  if (earlierMs !== null)
    console.log(`  ${bar(`${name}: time alone / that at --before`, alone.ms / earlierMs, SLOWER_BAR, "x")}`);
const all = atOnce === null ? found : [...found, atOnce];
if (atOnce !== null) console.log(`  ${judged("ten rows at once", [atOnce])}`);
console.log(`  ${bar("largest RSS", Math.max(...all.map(({ mostMb }) => mostMb)), MOST_BAR_MB, "MB")}`);
console.log(
  `  ${bar("RSS kept after a row", Math.max(...all.map(({ afterMb, beforeMb }) => afterMb - beforeMb)), BACK_BAR_MB, "MB")}`,
);
save("hold", { streams: STREAMS, periodMs: PERIOD_MS, rows: found, atOnce, again: Object.fromEntries(again) });
