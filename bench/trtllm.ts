/**
 * Compares the cost of TensorRT-LLM's schedulers with vLLM's: the time of a step of 256 decoding requests, and the speed of a
 * replay. All schedulers run in turn.
 *
 *   bun bench/trtllm.ts [--rounds 7] [--no-save]
 */
import options from "../bin/replay-options.json";
import { CAPACITY_POLICIES } from "../src/engine/config/trtllm.ts";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { pinned, SERVER_CORE } from "./lib/process.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";
import { decode, loadDecoding, tokensThatFit } from "./micro/decode.ts";

rejectUnknown(["--rounds", "--no-save"]);

const SEQUENCES = 256;
const BARS = { step: 2.5, replay: 0.5 };
const rounds = number("--rounds", 7);
/** The measured policies of TensorRT-LLM: its default, and the one that checks the next step's blocks. */
const POLICIES = CAPACITY_POLICIES.slice(0, 2);
const VLLM = "vllm";
const NAMES = [VLLM, ...POLICIES] as const;
type Name = (typeof NAMES)[number];

const perName = <T>(make: (name: Name) => T) =>
  Object.fromEntries(NAMES.map((name) => [name, make(name)])) as Record<Name, T>;

/** Returns the nanoseconds per step in each scheduler's best round. Each round begins with another scheduler. */
async function steps(): Promise<Record<Name, number>> {
  const length = tokensThatFit(SEQUENCES);
  const taken = perName<number[]>(() => []);
  const batches = await Promise.all(
    NAMES.map((name) =>
      loadDecoding(
        name === VLLM
          ? {}
          : {
              trtllm: {
                capacitySchedulerPolicy: name,
                contextChunkingPolicy: "FIRST_COME_FIRST_SERVED",
                maxInputLen: 8192,
                enablePartialReuse: true,
                copyOnPartialReuse: true,
                enablePrefixAwareScheduling: true,
              },
            },
      ),
    ),
  );
  for (let round = -2; round < rounds; round++) {
    for (let turn = 0; turn < NAMES.length; turn++) {
      const at = (round + 2 + turn) % NAMES.length;
      progress(`trtllm: step, ${NAMES[at]}`);
      const run = decode(batches[at]!, SEQUENCES, length);
      if (round >= 0) taken[NAMES[at]!].push((run.ms * 1e6) / run.steps);
    }
  }
  return perName((name) => Math.min(...taken[name]));
}

const REPLAY = [
  "--format",
  "synthetic:isl=1000,osl=200,concurrency=256,requests=10000",
  "--num-gpu-blocks-override",
  "20000",
];

/** Returns the output tokens per second in the best round of a replay, without the first round. */
async function replayRate(name: Name): Promise<number> {
  progress(`trtllm: replay, ${name}`);
  const flags =
    name === VLLM ? ["--max-num-seqs", "256"] : ["--capacity-scheduler-policy", name, "--max-batch-size", "256"];
  const script = `${root}bench/lib/replay-rounds.ts`;
  const command = pinned(SERVER_CORE, [process.execPath, script, "3", ...REPLAY, ...flags]);
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit", env: { ...options, ...process.env } });
  const out = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`the replay under ${name} failed`);
  const { rounds: seconds, outputTokens } = JSON.parse(out) as { rounds: number[]; outputTokens: number };
  return outputTokens / Math.min(...seconds.slice(1));
}

const nsPerStep = await steps();
const rates = perName<number[]>(() => []);
for (let round = 0; round < 3; round++) for (const name of NAMES) rates[name].push(await replayRate(name));
const tokensPerSecond = perName((name) => median(rates[name]));

table("TensorRT-LLM's schedulers and vLLM's", [
  ["scheduler", `ns per step of ${SEQUENCES}`, "÷ vLLM's", "replay, M tokens/s", "÷ vLLM's"],
  ...NAMES.map((name) => [
    ...[name, nsPerStep[name], nsPerStep[name] / nsPerStep[VLLM]],
    ...[tokensPerSecond[name] / 1e6, tokensPerSecond[name] / tokensPerSecond[VLLM]],
  ]),
]);
const slowest = Math.max(...POLICIES.map((name) => nsPerStep[name] / nsPerStep[VLLM]));
const least = Math.min(...POLICIES.map((name) => tokensPerSecond[name] / tokensPerSecond[VLLM]));
console.log(`  ${bar("slowest step ÷ vLLM's", slowest, BARS.step, "")}`);
console.log(`  ${bar("vLLM's replay speed ÷ the slowest", 1 / least, 1 / BARS.replay, "")}`);
save("trtllm", { nsPerStep, tokensPerSecond });
