/**
 * Measures the resident memory of the server: idle, after the first request, and per open stream.
 *
 *   bun run bench memory [--streams 10000] [--server "command"] [--base REV [--pairs 5]] [--realtime] [--no-save]
 */
import { BASE_FLAGS, compareWithBase } from "./lib/base.ts";
import { openFileLimit } from "./lib/limits.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { Page } from "./lib/page.ts";
import { residentBytes, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { chat, prose, wordsPerToken } from "./lib/prompt.ts";
import { complete, read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--streams", "--server", "--realtime", "--no-save", ...BASE_FLAGS]);
await compareWithBase({
  name: "memory",
  script: "bench/memory.ts",
  costs: (line: Readonly<Record<"idleMb" | "firstMb" | "openMb" | "perStreamKb", number>>) => ({
    "idle, MB": line.idleMb,
    "after the first request, MB": line.firstMb,
    // Streams reuse memory that garbage of the start has left, so the total matters as well as the value per stream.
    "with all streams open, MB": line.openMb,
    "per open stream, KB": line.perStreamKb,
  }),
});

const MB = 1e6;
const BAR = { idleMb: 90, firstMb: 180, perStreamKb: 10 };
const RUNNING = 1024;
const PROMPT_TOKENS = 1000;
const SETTLE_MS = 3000;

const limit = openFileLimit();
const asked = number("--streams", 10_000);
const streams = Math.min(asked, limit - 200);
if (streams < asked) console.log(`ulimit -n is ${limit}, so ${streams} streams run instead of ${asked}`);

/** Steps are rare, so that streams write little and none ends, and wide, so that all sequences soon run. */
const flags = [
  ...["--timing", "constant:ttft=250ms,itl=250ms", "--max-num-seqs", String(RUNNING)],
  ...["--max-model-len", "8192", "--num-gpu-blocks-override", "131072", "--max-num-batched-tokens", "65536"],
];

/** Returns the smallest of ten readings, in megabytes, because garbage may await its collection during some. */
async function settledMb(pid: number): Promise<number> {
  await Bun.sleep(SETTLE_MS);
  const readings: number[] = [];
  for (let i = 0; i < 10; i++) {
    readings.push(residentBytes(pid) / MB);
    await Bun.sleep(100);
  }
  return Math.min(...readings);
}

const server = await start(serverCommand(flags), { core: SERVER_CORE });
const { pid, port } = server;
progress("memory: idle");
const idleMb = await settledMb(pid);
const ratio = await wordsPerToken(port);
complete(await read({ port, body: chat("Hello there", 2) }), 1);
progress("memory: after the first request");
const firstMb = await settledMb(pid);

const body = chat(prose(Math.round(PROMPT_TOKENS * ratio)), 4000);
const reading = read({ port, body, streams, ramp: 4, durationMs: 90_000 });
let running = 0;
let waiting = 0;
const isIn = () => running + waiting >= streams && running >= Math.min(streams, RUNNING);
for (let i = 0; i < 150 && !isIn(); i++) {
  await Bun.sleep(500);
  const page = await Page.of(port);
  running = page.value("vllm:num_requests_running");
  waiting = page.value("vllm:num_requests_waiting");
  progress(`memory: ${running} running, ${waiting} waiting`);
}
const openMb = await settledMb(pid);
const perStreamKb = ((openMb - firstMb) * 1000) / (running + waiting);
const result = await reading;
await server.stop();

table(`Resident memory, MB, of the server; prompts of ${PROMPT_TOKENS} tokens`, [
  ["", "MB"],
  ["idle", idleMb],
  ["after the first request", firstMb],
  [`${running} running, ${waiting} waiting`, openMb],
]);
if (running + waiting < streams)
  console.log(`  only ${running + waiting} of ${streams} streams were open: ${JSON.stringify(result)}`);
console.log(`  ${bar("idle", idleMb, BAR.idleMb, "MB")}`);
console.log(`  ${bar("after the first request", firstMb, BAR.firstMb, "MB")}`);
console.log(`  ${bar("per open stream", perStreamKb, BAR.perStreamKb, "KB")}`);
save("memory", { streams, running, waiting, idleMb, firstMb, openMb, perStreamKb });
