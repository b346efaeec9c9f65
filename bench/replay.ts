/**
 * Measures the speed of replays: a decode-heavy load, the load that Dynamo's mocker is compared with, and a Mooncake-like trace
 * (time and memory). Each runs in its own process on one core. The first round includes compilation, so it is reported apart.
 *
 *   bun bench/replay.ts [--rounds 8] [--dynamo python] [--realtime] [--no-save]
 *
 * With `--realtime` the first rounds are too slow, because compiler threads wait for the kernel's turns of 100 ms on the core.
 * `--dynamo`: a Python with the packages ai-dynamo and ai-dynamo-runtime, whose mocker then runs the same load on the same core.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bars, figure, note, options, progress, save, table } from "./lib/bench.ts";
import { mooncakeTrace } from "./lib/mooncake.ts";
import { median } from "./lib/numbers.ts";
import { pinned, type ReplayResult, replayRounds, SERVER_CORE } from "./lib/servers.ts";

const { rounds, dynamo: python } = options({ rounds: 8, dynamo: "" }, ["--realtime"]);

const BAR = { nsPerToken: 20, dynamoTimes: 4, mooncakeS: 5, mooncakeMb: 300 };
/** Number of new processes whose first rounds are measured. A single first round varies by a tenth. */
const NEW_PROCESSES = 5;
const folder = mkdtempSync(join(tmpdir(), "understudy-bench-"));
const moon = join(folder, "mooncake.jsonl");
writeFileSync(moon, mooncakeTrace(12_000));

const CASES = {
  decode: ["--format", "synthetic:isl=16,osl=4000,concurrency=256,requests=2560", "--max-num-seqs", "256"].concat([
    ...["--num-gpu-blocks-override", "100000"],
  ]),
  // The mocker's defaults: 16,384 blocks of 64 tokens, 256 sequences, 8,192 tokens per step. We need one more, the null block.
  dynamo: ["--format", "synthetic:isl=1000,osl=200,concurrency=256,requests=10000", "--max-num-seqs", "256"].concat([
    ...["--block-size", "64", "--num-gpu-blocks-override", "16385", "--max-num-batched-tokens", "8192"],
  ]),
  mooncake: [moon, "--timing", "none"],
} as const;

function measure(name: keyof typeof CASES, times: number): Promise<ReplayResult> {
  progress(`replay: ${name}`);
  return replayRounds(times, CASES[name]);
}

/** Returns the requests per second of Dynamo's mocker in its best round. Null without `--dynamo`. */
async function dynamo(): Promise<number | null> {
  if (python === "") return null;
  progress("replay: Dynamo's mocker");
  const script = [
    "import time",
    "from dynamo.replay import run_synthetic_trace_replay as run",
    "for _ in range(3):",
    "  t = time.perf_counter(); run(1000, 200, 10000, replay_concurrency=256); print(time.perf_counter() - t)",
  ].join("\n");
  const child = Bun.spawn(pinned(SERVER_CORE, [python, "-c", script]), {
    stdout: "pipe",
    stderr: "ignore",
  });
  const seconds = (await new Response(child.stdout).text()).trim().split("\n").map(Number);
  if ((await child.exited) !== 0) throw new Error("Dynamo's mocker failed");
  return 10_000 / Math.min(...seconds);
}

const decode = await measure("decode", rounds);
const ours = await measure("dynamo", rounds);
const anew: number[] = [];
for (let i = 0; i < NEW_PROCESSES; i++) anew.push((await measure("dynamo", 1)).rounds[0]!);
const theirs = await dynamo();
const mooncake = await measure("mooncake", 1);
rmSync(folder, { recursive: true });

const later = (all: readonly number[]) => median(all.slice(Math.min(2, all.length - 1)));
const row = (name: string, { rounds: all, requests, outputTokens, tokens }: ReplayResult) => {
  const [first, steady] = [all[0]!, later(all)];
  return [name, first, steady, requests / steady, outputTokens / steady / 1e6, tokens / steady / 1e6];
};
table("Replay on one core", [
  ["case", "first round, s", "later rounds, s", "requests/s", "M output tokens/s", "M tokens/s"],
  row("decode-heavy", decode),
  row("1,000 in, 200 out", ours),
  row("Mooncake-like", mooncake),
]);
const perToken = (later(decode.rounds) * 1e9) / decode.outputTokens;
bars(
  ["ns per decoded token", perToken, BAR.nsPerToken, "ns"],
  ["12,000 Mooncake-like requests", mooncake.rounds[0]!, BAR.mooncakeS, "s"],
  ["peak memory of that process", mooncake.peakBytes / 1e6, BAR.mooncakeMb, "MB"],
);
if (theirs !== null) {
  const anewRate = ours.requests / median(anew);
  note(`Dynamo's mocker: ${figure(theirs)} requests/s; ours ${figure(anewRate)} in a new process`);
  const verdict = anewRate / theirs >= BAR.dynamoTimes ? "holds " : "MISSED";
  note(`${verdict}  ratio in a new process: ${figure(anewRate / theirs)} (at least ${BAR.dynamoTimes})`);
  note(`ratio in later rounds: ${figure(ours.requests / later(ours.rounds) / theirs)}`);
}
save("replay", { decode, dynamo: { ...ours, anew }, dynamoRequestsPerSecond: theirs, mooncake });
