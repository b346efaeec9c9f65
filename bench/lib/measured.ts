/** Has published benchmarks of real engines, and replays each of them with the engine's preset. */
import { readFileSync } from "node:fs";
import { engineConfig } from "../../src/embed/options.ts";
import { Replay } from "../../src/tools/replay/replay.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { requests } from "../../src/workloads/requests.ts";
import { root } from "./results.ts";

/** Prompt tokens, concurrent requests, mean time to first token and per output token in ms. Answers have 1,024 tokens. */
export type Point = readonly [isl: number, concurrency: number, ttftMs: number, tpotMs: number];

/**
 * Benchmarks with a fixed number of concurrent requests, by preset. Source: aiconfigurator-core 0.12.0,
 * systems/silicon_sample.csv. It states vLLM's version only for gpt-oss (0.18.0, 0.11.2). The h200-tp4-trtllm rows come from an
 * older TensorRT-LLM.
 */
export const MEASURED: Readonly<Record<string, readonly Point[]>> = {
  "llama-3.1-70b-fp8-h100-tp2-vllm": [
    [1024, 4, 121.3, 17.41],
    [1024, 8, 150.2, 18.22],
    [1024, 16, 252.5, 19.74],
    [1024, 32, 272.7, 23.54],
    [1024, 64, 415.1, 28.77],
    [8192, 4, 737.5, 20.62],
    [8192, 8, 962.9, 25.01],
    [8192, 16, 1284.1, 34.63],
    [8192, 32, 6518.3, 52.37],
    [8192, 64, 59175.4, 52.41],
  ],
  "llama-3.1-70b-fp8-h100-tp4-vllm": [
    [1024, 4, 80.5, 11.78],
    [1024, 8, 96.3, 12.11],
    [1024, 16, 121.4, 13.19],
    [1024, 32, 174.8, 16.49],
    [1024, 64, 256.4, 19.51],
    [8192, 4, 453.3, 13.27],
    [8192, 8, 582.9, 15.77],
    [8192, 16, 731.5, 21.06],
    [8192, 32, 1068.7, 32.82],
    [8192, 64, 1744.9, 53.49],
  ],
  "llama-3.1-70b-fp8-h100-tp8-vllm": [
    [1024, 4, 70.4, 9.11],
    [1024, 8, 75.8, 9.36],
    [1024, 16, 93.0, 11.39],
    [1024, 32, 124.4, 12.64],
    [1024, 64, 184.8, 15.45],
    [8192, 4, 300.8, 10.22],
    [8192, 8, 360.7, 11.59],
    [8192, 16, 482.9, 15.85],
    [8192, 32, 689.2, 21.61],
    [8192, 64, 1150.3, 34.48],
  ],
  "llama-3.1-70b-fp8-h200-tp4-vllm": [
    [1024, 4, 90.6, 9.85],
    [1024, 8, 101.1, 10.14],
    [1024, 16, 126.2, 10.94],
    [1024, 32, 179.1, 14.38],
    [1024, 64, 264.5, 16.07],
    [8192, 4, 468.6, 11.27],
    [8192, 8, 613.3, 13.19],
    [8192, 16, 775.2, 17.44],
    [8192, 32, 1117.1, 28.62],
    [8192, 64, 1817.5, 46.11],
  ],
  "llama-3.1-70b-fp8-b200-tp2-vllm": [
    [1024, 4, 91.5, 10.64],
    [1024, 8, 122.3, 10.73],
    [1024, 16, 136.4, 11.37],
    [1024, 32, 193.1, 13.02],
    [1024, 64, 294.3, 15.89],
    [8192, 4, 463.5, 11.75],
    [8192, 8, 606.3, 13.56],
    [8192, 16, 759.0, 17.46],
    [8192, 32, 1126.3, 25.38],
    [8192, 64, 1852.3, 42.01],
  ],
  "llama-3.1-70b-fp8-h200-tp4-trtllm": [
    [1024, 4, 230.4, 7.98],
    [1024, 8, 257.3, 8.24],
    [1024, 16, 281.9, 8.93],
    [1024, 32, 368.2, 10.63],
    [1024, 64, 528.7, 13.66],
    [1024, 128, 750.4, 19.28],
    [8192, 4, 439.1, 9.3],
    [8192, 8, 567.1, 10.98],
    [8192, 16, 709.2, 14.83],
    [8192, 32, 1016.0, 22.14],
    [8192, 64, 1695.2, 37.03],
    [8192, 128, 2893.4, 66.36],
  ],
  "gpt-oss-120b-mxfp4-h100-tp2-vllm": [
    [1024, 4, 59.3, 5.03],
    [1024, 8, 70.1, 6.25],
    [1024, 16, 90.7, 8.18],
    [1024, 32, 119.4, 10.94],
    [1024, 64, 169.0, 14.83],
    [8192, 4, 264.7, 5.6],
    [8192, 8, 305.6, 7.44],
    [8192, 16, 410.8, 10.78],
    [8192, 32, 581.1, 16.51],
    [8192, 64, 975.6, 26.32],
  ],
};

const OSL = 1024;
/** As in the benchmarks, lengths are uniform from 0.8 to 1 of the nominal length, with 10 requests per concurrent one. */
const SHORTEST = 0.8;
const PER_SLOT = 10;

export interface SimulatedTimes {
  readonly ttftMs: number;
  readonly tpotMs: number;
  readonly preemptions: number;
}

const core = () => new WebAssembly.Module(readFileSync(`${root}build/core.wasm`));

/** Results so far. Tables and tests request the same points repeatedly. */
const known = new Map<string, SimulatedTimes>();

/** Replays a benchmark. `timing`: a preset, or its name with an overhead. `poolTokens`: default the preset's pool. */
export function simulate(timing: string, point: Point, poolTokens?: number, seed = 0): SimulatedTimes {
  const key = JSON.stringify([timing, point, poolTokens, seed]);
  const result = known.get(key) ?? replayed(timing, point, poolTokens, seed);
  known.set(key, result);
  return result;
}

function replayed(
  timing: string,
  [isl, concurrency]: Point,
  poolTokens: number | undefined,
  seed: number,
): SimulatedTimes {
  const blocks = poolTokens === undefined ? {} : { numGpuBlocksOverride: Math.ceil(poolTokens / 16) + 1 };
  const { engine } = engineConfig({ timing, seed, ...blocks });
  const lengths = (most: number) => `${Math.ceil(SHORTEST * most)}-${most}`;
  const text = `synthetic:isl=${lengths(isl)},osl=${lengths(OSL)},concurrency=${concurrency}`;
  const trace = openTrace(`${text},requests=${PER_SLOT * concurrency}`, null);
  const wanted = { seed, limit: Number.POSITIVE_INFINITY, rateScale: 1, onBad: null };
  const replay = new Replay({
    config: engine,
    module: core(),
    engines: 1,
    requests: requests(trace, text, wanted),
    pace: trace.pace,
    untilUs: Number.POSITIVE_INFINITY,
  });
  replay.run();
  const [snapshot] = replay.fleet.snapshots();
  const { timeToFirstToken, timePerOutputToken } = snapshot!.histograms;
  const meanMs = ({ sum, count }: { sum: number; count: number }) => (1000 * sum) / count;
  return {
    ttftMs: meanMs(timeToFirstToken),
    tpotMs: meanMs(timePerOutputToken),
    preemptions: snapshot!.preemptions,
  };
}
