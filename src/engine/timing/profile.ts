/** Type of a preset: the measured engine and its step times. */
import type { Timing } from "../config/step-times.ts";

export type TableTiming = Extract<Timing, { kind: "table" }>;

type Range = readonly [number, number];

/** One measured engine: model, GPU, parallelism and precision. All figures are measured or fitted, never invented. */
export interface Profile {
  readonly name: string;
  /** Key of `models`. */
  readonly model: string;
  /** Name of the measured weights on the hub, if it differs from the model's. */
  readonly hub?: string;
  readonly gpu: string;
  readonly tp: number;
  readonly precision: string;
  readonly engine: string;
  /** Memory of one GPU. */
  readonly gpuMemoryBytes: number;
  /** KV cache bytes of one token, over all ranks. */
  readonly kvBytesPerToken: number;
  /** Size of the KV pool in tokens, estimated for the default share of memory. */
  readonly poolTokens: number;
  /** Inputs for which the fit's error applies. Outside, the last slopes continue. */
  readonly valid: {
    readonly tokensPerStep: Range;
    readonly prefixTokens: Range;
    readonly sequences: Range;
    readonly contextEach: Range;
  };
  readonly timing: TableTiming;
}
