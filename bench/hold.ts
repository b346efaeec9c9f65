/**
 * Can one client hold up the others? The longest gap in fifty streams of a token every 20 ms while one request is answered
 * that is large in something, beside streams of the bare C loop on the same core in the same seconds: what is above its gap
 * is ours. RSS at most, and how long the one who sent it waits, alone and beside the streams.
 *
 *   bun run bench:hold [--rows WORDS] [--streams 50] [--no-save]
 *
 * `--rows`: those whose name has one of the words, which a comma parts.
 */
import { HOLD_ROWS, type HoldRow } from "./lib/hold-rows.ts";
import { known, number, text } from "./lib/options.ts";
import { program, type Running, residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat } from "./lib/prompt.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { capture } from "./stream/capture.ts";

known(["--rows", "--streams", "--no-save", "--server"]);

const PERIOD_MS = 20;
const GAP_BAR_MS = 10;
const STREAMS = number("--streams", 50);
const wanted = text("--rows", "").split(",");
const rows = HOLD_ROWS.filter(({ name }) => wanted.some((word) => name.includes(word)));
const ENDLESS = 100_000;
/** Streams are read so long before the request, and behind its answer. */
const AROUND_MS = 700;
/** As much longer may the request take beside streams. */
const SLOWER = 3;
const flags = [
  ...["--served-model-name", "m", "--disable-uvicorn-access-log", "--timing", `constant:ttft=20ms,itl=${PERIOD_MS}ms`],
  ...["--max-model-len", "262144", "--num-gpu-blocks-override", "1048576", "--max-num-seqs", "2048"],
];
const body = chat("Tell me about the weather.", ENDLESS, { seed: 1 });

interface Sent {
  readonly status: string;
  readonly bytes: number;
  readonly ms: number;
}

/** Sends the row's requests and reads their answers. */
async function send({ port }: Running, { path, count = 1 }: HoldRow, sent: string): Promise<Sent> {
  const from = performance.now();
  const answers = await Promise.all(
    Array.from({ length: count }, async () => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body: sent });
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

async function measure(server: Running, anchor: Running, row: HoldRow) {
  progress(`hold: ${row.name}`);
  const sent = row.body();
  const alone = await send(server, row, sent);
  const before = residentBytes(server.pid);
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, residentBytes(server.pid));
  }, 20);
  const durationMs = Math.ceil(2 * AROUND_MS + SLOWER * alone.ms);
  const reading = Promise.all([gapOf(server, durationMs), gapOf(anchor, durationMs)]);
  await Bun.sleep(AROUND_MS);
  const beside = await send(server, row, sent);
  const [gapMs, controlMs] = await reading;
  clearInterval(watch);
  return { name: row.name, alone, beside, gapMs, controlMs, beforeMb: before / 1e6, mostMb: most / 1e6 };
}

const server = await start(serverCommand(flags), { core: SERVER_CORE });
const found: Awaited<ReturnType<typeof measure>>[] = [];
try {
  const { path } = await capture(server.port, chat("Tell me about the weather.", 50), "hold");
  const command = [program("anchor"), "--template", root + path, "--events", String(ENDLESS)];
  const anchor = await start([...command, "--period-us", String(PERIOD_MS * 1000)], { core: SERVER_CORE });
  try {
    for (const row of rows) found.push(await measure(server, anchor, row));
  } finally {
    await anchor.stop();
  }
} finally {
  await server.stop();
}
table(`beside ${STREAMS} streams of a token every ${PERIOD_MS} ms`, [
  ["", "status", "answer MB", "alone ms", "beside ms", "gap ms", "C loop's", "RSS MB", "at most"],
  ...found.map(({ name, alone, beside, gapMs, controlMs, beforeMb, mostMb }) => [
    ...[name, beside.status, beside.bytes / 1e6, alone.ms, beside.ms, gapMs, controlMs, beforeMb, mostMb],
  ]),
]);
for (const { name, gapMs, controlMs } of found) console.log(`  ${bar(name, gapMs - controlMs, GAP_BAR_MS, "ms")}`);
save("hold", { streams: STREAMS, periodMs: PERIOD_MS, rows: found });
