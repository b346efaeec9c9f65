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
 * bench reports the rest. A row that exceeds its bound is measured twice more, and the median of the three counts. At the end,
 * ten rows run at once. If a garbage collection falls into the time (by the runtime's log), the gap may be 25 ms longer. After
 * a client that reads nothing has left, the server may not answer more of its requests.
 */
import { connect } from "node:net";
import { bars, note, options, save, table } from "./lib/bench.ts";
import { chat, longestGapMs, Page, read, sameChat } from "./lib/client.ts";
import { Collections } from "./lib/collections.ts";
import { AROUND_MS, gapsBeside, measureRows, noteGap, type StreamingServer } from "./lib/gaps.ts";
import { AT_ONCE, HOLD_ROWS, type HoldRow } from "./lib/hold-rows.ts";
import { attack } from "./lib/http2-attacks.ts";
import { type RunningServer, residentMb, serve, start, withCpu } from "./lib/servers.ts";
import { capture, startLoop } from "./stream/capture.ts";

const { streams: count, before } = options({ streams: 50, before: "", rows: "" }, ["--server"]);

const PERIOD_MS = 20;
const ENDLESS = 100_000;
/** The streams are read for this multiple of the time that the request takes alone. */
const SLOWER = 3;
/** Longest time in which the server may free its memory. Its reading thread ends after five idle seconds. */
const REST_MS = 6500;
const LOOK_MS = 100;
/** Bound on the wait for the server of `--before`. A longer wait counts as this long. */
const EARLIER_MOST_MS = 120_000;
/** Time for which a client that does not read stays connected. */
const UNREAD_MS = 5000;
/** After such a client has left, the bench waits `GRACE_MS`, then counts answers and CPU time during `AFTER_MS`. */
const GRACE_MS = 200;
const AFTER_MS = 2000;
const SLOWER_BAR = 1.5;
const MOST_BAR_MB = 600;
const BACK_BAR_MB = 50;
const flags = [
  ...["--served-model-name", "m", "--disable-uvicorn-access-log", "--timing", `constant:ttft=20ms,itl=${PERIOD_MS}ms`],
  ...["--max-model-len", "262144", "--num-gpu-blocks-override", "1048576", "--max-num-seqs", "2048"],
  ...["--embedding-dimensions", "512"],
];
const streams = { body: sameChat(ENDLESS), streams: count };

/** The answers to the requests of a row. `status` has each distinct status once. */
interface Answers {
  readonly status: string;
  readonly bytes: number;
}

/** Sends pipelined requests on one connection, the last with `Connection: close`. */
function sendOnOne(port: number, { path, count = 1, pipelined }: HoldRow): Promise<Answers> {
  const request = `GET ${path} HTTP/1.1\r\nHost: x\r\n`;
  const { promise, resolve, reject } = Promise.withResolvers<Answers>();
  const socket = connect({ port, host: "127.0.0.1" });
  let bytes = 0;
  let status = "none";
  socket.on("error", reject);
  socket.on("data", (data) => {
    if (bytes === 0) status = data.toString("latin1", 9, 12);
    bytes += data.length;
  });
  socket.on("close", () => resolve({ status, bytes }));
  if (pipelined === "unread") {
    socket.pause();
    setTimeout(() => socket.resetAndDestroy(), UNREAD_MS);
  }
  socket.write(`${`${request}\r\n`.repeat(count - 1)}${request}Connection: close\r\n\r\n`);
  return promise;
}

async function answersTo(port: number, row: HoldRow, body: string, signal: AbortSignal | null): Promise<Answers> {
  const { path, count = 1, method = "POST", pipelined, attack: frames } = row;
  if (pipelined !== undefined) return sendOnOne(port, row);
  if (frames !== undefined) return { status: await attack(frames.frames, frames.port, path), bytes: 0 };
  const asked = method === "GET" ? {} : { method, headers: { "content-type": "application/json" }, body };
  const statuses = new Set<number>();
  let bytes = 0;
  const ask = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { ...asked, signal });
    for await (const part of answer.body ?? []) bytes += part.length;
    statuses.add(answer.status);
  };
  await Promise.all(Array.from({ length: count }, ask));
  return { status: [...statuses].join(" "), bytes };
}

/** Sends the row's requests and reads their answers. `ms`: the time that the client waited. */
async function send({ port }: RunningServer, row: HoldRow, body: string, signal: AbortSignal | null = null) {
  const from = performance.now();
  const answers = await answersTo(port, row, body, signal);
  return { ...answers, ms: performance.now() - from };
}

/** Returns the number of answers to a client that has left, and the CPU time of the server in percent of a core. */
async function afterLeaving(server: RunningServer, { path }: HoldRow) {
  const answered = async () => (await Page.of(server.port)).value("http_requests_total", `handler="${path}"`) || 0;
  await Bun.sleep(GRACE_MS);
  const before = await answered();
  const { us } = await withCpu(server, () => Bun.sleep(AFTER_MS));
  return { answered: (await answered()) - before, cpuPercent: us / (AFTER_MS * 10) };
}

async function startLogged(name: string, more: readonly string[]): Promise<StreamingServer> {
  const collections = new Collections(name);
  return { server: await serve([...flags, ...more], collections.start), collections, streams };
}

/** Runs `act` while streams of the server and of the C server are read, then waits until the server has freed its memory. */
async function duringStreams<T>(logged: StreamingServer, aloneMs: number, act: () => Promise<T>) {
  const { pid } = logged.server;
  const beforeMb = residentMb(pid);
  const durationMs = Math.ceil(2 * AROUND_MS + SLOWER * aloneMs);
  const controlMs = read({ ...streams, port: loop.port, durationMs, gaps: true }).then(longestGapMs);
  const { mostMb, acted, ...gaps } = await gapsBeside(logged, durationMs, controlMs, act);
  for (let ms = 0; ms < REST_MS && residentMb(pid) > beforeMb + BACK_BAR_MB; ms += LOOK_MS) await Bun.sleep(LOOK_MS);
  return { ...gaps, beforeMb, mostMb, afterMb: residentMb(pid), acted };
}

/**
 * Returns the time, in milliseconds, that the client waits at the server of `--before`. Null without `--before`. Each row gets a
 * new server, because an answer of an earlier one may never end.
 */
async function earlierMsOf(row: HoldRow, body: string): Promise<number | null> {
  // There are many rows about fields, and they resemble each other.
  if (before === "" || row.name.includes(":")) return null;
  const earlier = await start([process.execPath, `${before}/src/main.ts`, "serve", ...flags, ...(row.flags ?? [])]);
  try {
    return (await send(earlier, row, body, AbortSignal.timeout(EARLIER_MOST_MS))).ms;
  } catch (why) {
    if ((why as Error).name !== "TimeoutError") throw why;
    return EARLIER_MOST_MS;
  } finally {
    process.kill(earlier.pid, "SIGKILL");
  }
}

async function measure(row: HoldRow, isRepeated: boolean) {
  const own = row.flags && (await startLogged("hold-own", row.flags));
  await using _own = own?.server;
  const logged = own ?? common;
  const body = row.body();
  const act = () => send(logged.server, row, body);
  const alone = await act();
  const left = row.pipelined === "unread" ? await afterLeaving(logged.server, row) : null;
  const earlierMs = isRepeated ? null : await earlierMsOf(row, body);
  const { acted, ...seen } = await duringStreams(logged, alone.ms, act);
  return { name: row.name, alone, left, beside: acted, earlierMs, ...seen };
}

/** Sends the ten rows at once. */
async function measureAtOnce(found: readonly Awaited<ReturnType<typeof measure>>[]) {
  const ten = HOLD_ROWS.filter(({ name }) => AT_ONCE.includes(name)).map((row) => [row, row.body()] as const);
  const aloneMs = found.reduce((sum, { name, alone }) => sum + (AT_ONCE.includes(name) ? alone.ms : 0), 0);
  const { acted, ...seen } = await duringStreams(common, aloneMs, () =>
    Promise.all(ten.map(([row, body]) => send(common.server, row, body))),
  );
  return { ...seen, sent: acted };
}

const common = await startLogged("hold", []);
await using _server = common.server;
const template = await capture(common.server.port, chat("Tell me about the weather.", 50), "hold");
await using loop = await startLoop(template, { events: ENDLESS, periodUs: PERIOD_MS * 1000 });
const { found, again } = await measureRows("hold", HOLD_ROWS, measure);
const hasTen = AT_ONCE.every((name) => found.some((row) => row.name === name));
const atOnce = hasTen ? await measureAtOnce(found) : null;

table(`during ${count} streams of a token every ${PERIOD_MS} ms`, [
  [
    ...["", "status", "answer MB", "client alone ms", "at --before ms", "with streams ms", "gap ms", "C server's gap"],
    ...["collection ms", "RSS MB", "largest", "after"],
  ],
  ...found.map(({ name, alone, beside, earlierMs, gapMs, controlMs, collectionMs, beforeMb, mostMb, afterMb }) => [
    ...[name, beside.status, beside.bytes / 1e6, alone.ms, earlierMs ?? Number.NaN, beside.ms, gapMs, controlMs],
    ...[collectionMs, beforeMb, mostMb, afterMb],
  ]),
]);
for (const row of found) noteGap(row.name, row, again[row.name]);
for (const { name, alone, earlierMs } of found)
  if (earlierMs !== null) bars([`${name}: time alone / that at --before`, alone.ms / earlierMs, SLOWER_BAR, "x"]);
for (const { name, left } of found) {
  if (left === null) continue;
  bars([`${name}: requests answered after the client has left`, left.answered, 0, ""]);
  note(`CPU from ${GRACE_MS / 1000} s after the client has left: ${left.cpuPercent.toFixed(1)} %`);
}
if (atOnce !== null) noteGap("ten rows at once", atOnce);
const all = [...found, ...(atOnce === null ? [] : [atOnce])];
bars(
  ["largest RSS", Math.max(...all.map(({ mostMb }) => mostMb)), MOST_BAR_MB, "MB"],
  ["RSS kept after a row", Math.max(...all.map(({ afterMb, beforeMb }) => afterMb - beforeMb)), BACK_BAR_MB, "MB"],
);
save("hold", { streams: count, periodMs: PERIOD_MS, rows: found, atOnce, again });
