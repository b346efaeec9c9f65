/**
 * Compares the cost of TensorRT-LLM's schedulers with vLLM's: the time of a step of 256 decoding requests, and the speed of a
 * replay. All schedulers run in turn.
 *
 *   bun bench/trtllm.ts [--rounds 7] [--no-save]
 */
import { CAPACITY_POLICIES } from "../src/engine/config/trtllm.ts";
import { bars, options, save, table } from "./lib/bench.ts";
import { median } from "./lib/numbers.ts";
import { inTurns, replayRounds } from "./lib/servers.ts";
import { decode, loadDecoding, tokensThatFit } from "./micro/decode.ts";

const { rounds } = options({ rounds: 7 });

const SEQUENCES = 256;
const BARS = { step: 2.5, replay: 0.5 };
/** The measured policies of TensorRT-LLM: its default, and the one that checks the next step's blocks. */
const POLICIES = CAPACITY_POLICIES.slice(0, 2);
const VLLM = "vllm";
const NAMES = [VLLM, ...POLICIES] as const;
type Name = (typeof NAMES)[number];

const perName = <T>(make: (name: Name) => T) =>
  Object.fromEntries(NAMES.map((name) => [name, make(name)])) as Record<Name, T>;

const TRTLLM = {
  ...({ contextChunkingPolicy: "FIRST_COME_FIRST_SERVED", maxInputLen: 8192, enablePartialReuse: true } as const),
  ...{ copyOnPartialReuse: true, enablePrefixAwareScheduling: true },
};
const length = tokensThatFit(SEQUENCES);

/** Returns a function that decodes under the scheduler, and returns the nanoseconds per step. */
async function stepper(name: Name): Promise<() => number> {
  const setup = name === VLLM ? {} : { trtllm: { capacitySchedulerPolicy: name, ...TRTLLM } };
  const batch = await loadDecoding(setup);
  return () => {
    const run = decode(batch, SEQUENCES, length);
    return (run.ms * 1e6) / run.steps;
  };
}

const LOAD = "synthetic:isl=1000,osl=200,concurrency=256,requests=10000";

/** Returns the output tokens per second in the best round of a replay, without the first round. */
async function replayRate(name: Name): Promise<number> {
  const limits = name === VLLM ? ["--max-num-seqs"] : ["--capacity-scheduler-policy", name, "--max-batch-size"];
  const flags = ["--format", LOAD, "--num-gpu-blocks-override", "20000", ...limits, "256"];
  const { rounds: seconds, outputTokens } = await replayRounds(3, flags);
  return outputTokens / Math.min(...seconds.slice(1));
}

const steppers = Object.fromEntries(await Promise.all(NAMES.map(async (name) => [name, await stepper(name)] as const)));
const steps = await inTurns("trtllm: step", rounds, steppers as Record<Name, () => number>, 2);
const rates = await inTurns(
  "trtllm: replay",
  3,
  perName((name) => () => replayRate(name)),
);
const nsPerStep = perName((name) => Math.min(...steps[name]));
const tokensPerSecond = perName((name) => median(rates[name]));

const stepTimes = (name: Name) => nsPerStep[name] / nsPerStep[VLLM];
const rateTimes = (name: Name) => tokensPerSecond[name] / tokensPerSecond[VLLM];
table("TensorRT-LLM's schedulers and vLLM's", [
  ["scheduler", `ns per step of ${SEQUENCES}`, "÷ vLLM's", "replay, M tokens/s", "÷ vLLM's"],
  ...NAMES.map((name) => [...[name, nsPerStep[name], stepTimes(name), tokensPerSecond[name] / 1e6, rateTimes(name)]]),
]);
bars(
  ["slowest step ÷ vLLM's", Math.max(...POLICIES.map(stepTimes)), BARS.step, ""],
  ["vLLM's replay speed ÷ the slowest", 1 / Math.min(...POLICIES.map(rateTimes)), 1 / BARS.replay, ""],
);
save("trtllm", { nsPerStep, tokensPerSecond });
