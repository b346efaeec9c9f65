/**
 * Measures the resident memory of the server: idle, after the first request, and per open stream.
 *
 *   bun run bench memory [--streams 10000] [--server "command"] [--base REV [--pairs 5]] [--realtime] [--no-save]
 */
import { readFileSync } from "node:fs";
import { BASE_FLAGS, compareWithBase } from "./lib/base.ts";
import { bars, note, options, progress, save, table } from "./lib/bench.ts";
import { chat, complete, Page, prose, read, wordsPerToken } from "./lib/client.ts";
import { residentMb, serve } from "./lib/servers.ts";

const { streams: asked } = options({ streams: 10_000 }, ["--server", "--realtime", ...BASE_FLAGS]);
await compareWithBase({
  name: "memory",
  script: "bench/memory.ts",
  costs: {
    ...{ "idle, MB": "idleMb", "after the first request, MB": "firstMb" },
    // Streams reuse memory that garbage of the start has left, so the total matters as well as the value per stream.
    ...{ "with all streams open, MB": "openMb", "per open stream, KB": "perStreamKb" },
  },
});

const BAR = { idleMb: 90, firstMb: 180, perStreamKb: 10 };
const RUNNING = 1024;
const PROMPT_TOKENS = 1000;
const SETTLE_MS = 3000;

/** Number of files that this process, and the processes it starts, may have open. "unlimited" becomes infinity. */
const limit = Number(/Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "latin1"))?.[1] ?? Infinity);
const streams = Math.min(asked, limit - 200);
if (streams < asked) console.log(`ulimit -n is ${limit}, so ${streams} streams run instead of ${asked}`);

// Steps are rare, so that streams write little and none ends, and wide, so that all sequences soon run.
await using server = await serve([
  ...["--timing", "constant:ttft=250ms,itl=250ms", "--max-num-seqs", String(RUNNING)],
  ...["--max-model-len", "8192", "--num-gpu-blocks-override", "131072", "--max-num-batched-tokens", "65536"],
]);
const { pid, port } = server;

/** Returns the smallest of ten readings, in megabytes, because garbage may await its collection during some. */
async function settledMb(when: string): Promise<number> {
  progress(`memory: ${when}`);
  await Bun.sleep(SETTLE_MS);
  let least = Infinity;
  for (let i = 0; i < 10; i++) {
    least = Math.min(least, residentMb(pid));
    await Bun.sleep(100);
  }
  return least;
}

const idleMb = await settledMb("idle");
const ratio = await wordsPerToken(port);
complete(await read({ port, body: chat("Hello there", 2) }), 1);
const firstMb = await settledMb("after the first request");

const body = chat(prose(Math.round(PROMPT_TOKENS * ratio)), 4000);
const reading = read({ port, body, streams, ramp: 4, durationMs: 90_000 });
let [running, waiting] = [0, 0];
const isIn = () => running + waiting >= streams && running >= Math.min(streams, RUNNING);
for (let i = 0; i < 150 && !isIn(); i++) {
  await Bun.sleep(500);
  const page = await Page.of(port);
  [running, waiting] = [page.value("vllm:num_requests_running"), page.value("vllm:num_requests_waiting")];
  progress(`memory: ${running} running, ${waiting} waiting`);
}
const openMb = await settledMb(`${running} running, ${waiting} waiting`);
const perStreamKb = ((openMb - firstMb) * 1000) / (running + waiting);
const result = await reading;

table(`Resident memory, MB, of the server; prompts of ${PROMPT_TOKENS} tokens`, [
  ["", "MB"],
  ["idle", idleMb],
  ["after the first request", firstMb],
  [`${running} running, ${waiting} waiting`, openMb],
]);
if (running + waiting < streams)
  note(`only ${running + waiting} of ${streams} streams were open: ${JSON.stringify(result)}`);
bars(
  ["idle", idleMb, BAR.idleMb, "MB"],
  ["after the first request", firstMb, BAR.firstMb, "MB"],
  ["per open stream", perStreamKb, BAR.perStreamKb, "KB"],
);
save("memory", { streams, running, waiting, idleMb, firstMb, openMb, perStreamKb });
