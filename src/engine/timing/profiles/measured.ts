/**
 * Makes the presets from the rows of the JSON files, with the parts that all share. Times are microseconds in the form of `../timing.ts`. Source unless a preset names
 * another: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/GPU/{gemm,attention,comm,moe}/ENGINE/VERSION/*.parquet, with the model's weights config on the hub. A
 * row's `about` names GPU, ENGINE and VERSION. "Mixed steps": largest and mean deviation of the form from the
 * source. Calibrated: TPOT is scaled to measured points, and the request overhead is the value from 0 to 15 ms with the
 * best TTFT. "before" is the median of form / measured. Not calibrated, because there are no points: the overhead is
 * that of similar engines' API servers and tokenizers (docs/explanation/timing.md).
 */
import { models } from "../models.ts";
import type { Profile, TableTiming } from "../profile.ts";

/** Numbers of tokens for which the linear layers were measured. */
const LINEAR_TOKENS: readonly number[] = [
  1, 2, 3, 4, 8, 16, 17, 32, 33, 48, 49, 64, 65, 80, 81, 96, 97, 112, 113, 128, 129, 160, 161, 192, 193, 224, 225, 256,
  257, 512, 513, 768, 769, 1024, 1025, 1280, 1281, 1536, 1537, 1792, 1793, 2048, 2049, 2304, 2305, 2560, 2561, 2816,
  2817, 3072, 3073, 3328, 3329, 3584, 3585, 3840, 3841, 4096, 4097, 4352, 4353, 8192, 16384,
];

const GPU_MEMORY_BYTES: Readonly<Record<string, number>> = {
  a100: 85899345920,
  h100: 85899345920,
  h200: 151397597184,
  b200: 193273528320,
  l40s: 48305799168,
};

/** A row of a JSON file. */
export interface PresetFigures
  extends Pick<Profile, "engine" | "poolTokens" | "hub">,
    Pick<TableTiming, "linearUs" | "decode"> {
  /** Key of `models`, precision, GPU, tensor parallelism and engine, separated by dashes. */
  readonly name: string;
  /** Source and error of the figures. */
  readonly about: string;
  readonly valid?: Profile["valid"];
  readonly prefill: Omit<TableTiming["prefill"], "prefixUs">;
  readonly requestOverheadUs: number;
  readonly linearTokens?: readonly number[];
  readonly sharedBase?: boolean;
  readonly scale?: number;
  readonly overheadUs?: number;
}

const VALID: Profile["valid"] = {
  ...{ tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
};

export function preset({
  name,
  about: _,
  hub,
  engine,
  poolTokens,
  valid,
  prefill,
  ...figures
}: PresetFigures): Profile {
  const [, model, precision, gpu, tp] = /^(.+)-(bf16|fp8|mxfp4)-(\w+)-tp(\d+)-/.exec(name)!;
  return {
    ...{ name, model: model!, gpu: gpu!, tp: Number(tp), precision: precision!, engine, poolTokens },
    ...(hub === undefined ? {} : { hub }),
    gpuMemoryBytes: GPU_MEMORY_BYTES[gpu!]!,
    kvBytesPerToken: models[model!]!.kvBytesPerToken,
    valid: valid ?? VALID,
    timing: {
      ...{ kind: "table", name, linearTokens: LINEAR_TOKENS, sharedBase: false, scale: 1, overheadUs: 0 },
      ...figures,
      prefill: { ...prefill, prefixUs: 0 },
    },
  };
}
