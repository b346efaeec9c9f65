/** Converts the user's configuration to the core's words and tables. */
import { Config, FIX_ABORT_COUNTED, FIX_ABORT_TIMES, TimingKind } from "../../assembly/layout.ts";
import { histogramBounds } from "./config/buckets.ts";
import type { EngineConfig, FixName, StepPacing } from "./config/engine-config.ts";
import type { StepNoise, Timing } from "./config/step-times.ts";
import { HISTOGRAMS } from "./interface/numbers.ts";
import { faster, noiseFaster } from "./timing/timing.ts";
import { trtSetup } from "./trtllm-setup.ts";
import type { CoreSetup } from "./wasm/core.ts";

const FIXES: Readonly<Record<FixName, number>> = {
  "abort-counted": FIX_ABORT_COUNTED,
  "abort-times": FIX_ABORT_TIMES,
  // Changes the metrics page only, not the counts.
  "preemptions-at-once": 0,
  "responses-counted": 0,
};

/** Most stop ids of a request, without `stopIdsMost`. */
export const STOP_IDS_MOST = 8192;

export interface SetupExtras {
  readonly eosId: number;
  /** Most stop ids of a request, for example all of a vocabulary. `submit` throws if there are more. Default: 8,192. */
  readonly stopIdsMost?: number;
  readonly answers?: CoreSetup["answers"];
  /** True if changes of the prefix cache are recorded. */
  readonly kvEvents?: boolean;
  /** Index among engines with the same configuration. Each draws its own noise. */
  readonly rank?: number;
  /** Start value of every counter. */
  readonly countersFrom?: number;
}

export function coreSetup(
  config: EngineConfig,
  { eosId, stopIdsMost = STOP_IDS_MOST, answers, kvEvents, rank, countersFrom }: SetupExtras,
): CoreSetup {
  const bounds = histogramBounds(config);
  const pace = paceSetup(config);
  return {
    ...pace,
    ...trtSetup(config),
    config: {
      ...pace.config,
      [Config.NoiseSeed]: noiseSeed(config, rank),
      [Config.MaxModelLen]: config.maxModelLen,
      [Config.MaxNumSeqs]: config.maxNumSeqs,
      [Config.MaxNumActiveSeqs]: config.maxNumActiveSeqs,
      [Config.MaxNumBatchedTokens]: config.maxNumBatchedTokens,
      [Config.MaxNumScheduledTokens]: config.maxNumScheduledTokens,
      [Config.BlockSize]: config.blockSize,
      [Config.NumGpuBlocks]: config.numGpuBlocks,
      [Config.EnablePrefixCaching]: Number(config.enablePrefixCaching),
      [Config.EnableChunkedPrefill]: Number(config.enableChunkedPrefill),
      [Config.AsyncScheduling]: Number(config.asyncScheduling),
      [Config.PriorityPolicy]: Number(config.schedulingPolicy === "priority"),
      [Config.LongPrefillTokenThreshold]: config.vllm.longPrefillTokenThreshold,
      [Config.LongPrefillTokenThresholdAdaptive]: Number(config.vllm.longPrefillTokenThresholdAdaptive),
      [Config.PrefillScheduleInterval]: config.vllm.prefillScheduleInterval,
      [Config.ReserveFullIsl]: Number(config.vllm.schedulerReserveFullIsl),
      [Config.Watermark]: config.vllm.watermark,
      [Config.MaxLoras]: config.maxLoras,
      [Config.EosId]: eosId,
      [Config.KvEvents]: Number(kvEvents ?? false),
      // Room for the longest prompt, or for its hashes, and for stop ids.
      [Config.InputLength]: (config.blockSize === 1 ? 2 : 1) * config.maxModelLen + stopIdsMost,
      [Config.Fixes]: (config.fixes ?? []).reduce((bits, fix) => bits | FIXES[fix], 0),
      [Config.CountersFrom]: countersFrom ?? 0,
    },
    bounds: Object.fromEntries(
      HISTOGRAMS.map(({ name, unit }, i) => [i, bounds[name].map((bound) => bound * unit)]),
    ) as CoreSetup["bounds"] & {},
    ...(answers ? { answers } : {}),
  };
}

/** Separates the seeds of ranks. */
const RANK_STRIDE = 0x632be5ab;
/** Separates draws of the time before the queue from draws of step noise. */
const HOLD_SALT = 0x1f83d9ab;

const noiseSeed = ({ seed }: EngineConfig, rank = 0): number => seed ^ Math.imul(rank, RANK_STRIDE);

/** Returns the seed of the times that requests wait before the queue. */
export function holdSeed(config: EngineConfig, { rank }: Pick<SetupExtras, "rank">): number {
  return noiseSeed(config, rank) ^ HOLD_SALT;
}

/** Returns the complete pace, because the core may have had another one before. */
export function paceSetup({ timing: original, noise = {}, speed = 1 }: StepPacing) {
  const timing = faster(original, speed);
  const table = timing.kind === "table" ? timing : null;
  return {
    // Steps that take no time have no noise.
    config: { ...timingWords(timing), ...noiseWords(timing.kind === "none" ? {} : noiseFaster(noise, speed)) },
    ...(table ? { linearTokens: table.linearTokens, linearUs: table.linearUs } : {}),
  };
}

function noiseWords({ jitterSigma, tail, pause }: StepNoise) {
  return {
    [Config.JitterSigma]: jitterSigma ?? 0,
    [Config.TailShare]: tail?.share ?? 0,
    [Config.TailAlpha]: tail?.alpha ?? 0,
    [Config.PauseEveryUs]: pause?.everyUs ?? 0,
    [Config.PauseUs]: pause?.forUs ?? 0,
  };
}

function timingWords(timing: Timing): Partial<Record<Config, number>> {
  switch (timing.kind) {
    case "none":
      return { [Config.TimingKind]: TimingKind.None };
    case "constant":
      return { [Config.TimingKind]: TimingKind.Constant, [Config.LinearBaseUs]: timing.itlUs };
    case "linear":
      return {
        [Config.TimingKind]: TimingKind.Linear,
        [Config.LinearBaseUs]: timing.baseUs,
        [Config.LinearPrefillUs]: timing.prefillUs,
        [Config.LinearDecodeUs]: timing.decodeUs,
      };
    case "table":
      return {
        [Config.TimingKind]: TimingKind.Table,
        [Config.PrefillBaseUs]: timing.prefill.baseUs,
        [Config.PrefillNewUs]: timing.prefill.newUs,
        [Config.PrefillPrefixUs]: timing.prefill.prefixUs,
        [Config.PrefillPairsUs]: timing.prefill.pairsUs,
        [Config.DecodeBaseUs]: timing.decode.baseUs,
        [Config.DecodeSeqUs]: timing.decode.seqUs,
        [Config.DecodeCtxUs]: timing.decode.ctxUs,
        [Config.SharedBase]: Number(timing.sharedBase),
        [Config.Scale]: timing.scale,
        [Config.OverheadUs]: timing.overheadUs,
      };
  }
}
