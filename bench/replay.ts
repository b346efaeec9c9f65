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
import options from "../bin/replay-options.json";
import { mooncakeTrace } from "./lib/mooncake.ts";
import { median } from "./lib/numbers.ts";
import { has, number, rejectUnknown, text } from "./lib/options.ts";
import { pinned, SERVER_CORE } from "./lib/process.ts";
import { bar, figure, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--dynamo", "--realtime", "--no-save"]);

const BAR = { nsPerToken: 20, dynamoTimes: 4, mooncakeS: 5, mooncakeMb: 300 };
/** Number of new processes whose first rounds are measured. A single first round varies by a tenth. */
const NEW_PROCESSES = 5;
const rounds = number("--rounds", 8);
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

/** Several replays in one process: wall seconds of each, its work, and the process's peak memory. */
interface ReplayResult {
  readonly rounds: readonly number[];
  readonly requests: number;
  readonly outputTokens: number;
  readonly tokens: number;
  readonly peakBytes: number;
}

async function measure(name: keyof typeof CASES, times: number): Promise<ReplayResult> {
  progress(`replay: ${name}`);
  const script = `${root}bench/lib/replay-rounds.ts`;
  const command = pinned(SERVER_CORE, [process.execPath, script, String(times), ...CASES[name]]);
  // The installed command starts with the same options of the runtime.
  const env = { ...options, ...process.env };
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit", env });
  const out = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`${name} failed`);
  return { ...JSON.parse(out), peakBytes: child.resourceUsage()!.maxRSS };
}

/** Returns the requests per second of Dynamo's mocker in its best round. Null without `--dynamo`. */
async function dynamo(): Promise<number | null> {
  if (!has("--dynamo")) return null;
  progress("replay: Dynamo's mocker");
  const script = [
    "import time",
    "from dynamo.replay import run_synthetic_trace_replay as run",
    "for _ in range(3):",
    "  t = time.perf_counter(); run(1000, 200, 10000, replay_concurrency=256); print(time.perf_counter() - t)",
  ].join("\n");
  const child = Bun.spawn(pinned(SERVER_CORE, [text("--dynamo", "python3"), "-c", script]), {
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
console.log(`  ${bar("ns per decoded token", perToken, BAR.nsPerToken, "ns")}`);
console.log(`  ${bar("12,000 Mooncake-like requests", mooncake.rounds[0]!, BAR.mooncakeS, "s")}`);
console.log(`  ${bar("peak memory of that process", mooncake.peakBytes / 1e6, BAR.mooncakeMb, "MB")}`);
const times = (seconds: number) => (theirs === null ? Number.NaN : ours.requests / seconds / theirs);
if (theirs !== null) {
  console.log(
    `  Dynamo's mocker: ${figure(theirs)} requests/s; ours ${figure(ours.requests / median(anew))} in a new process`,
  );
  const verdict = times(median(anew)) >= BAR.dynamoTimes ? "holds " : "MISSED";
  console.log(`  ${verdict}  ratio in a new process: ${figure(times(median(anew)))} (at least ${BAR.dynamoTimes})`);
  console.log(`  ratio in later rounds: ${figure(times(later(ours.rounds)))}`);
}
save("replay", { decode, dynamo: { ...ours, anew }, dynamoRequestsPerSecond: theirs, mooncake });
