/** What does a preset say, besides how long a step takes? */
import type { Timing } from "../config/step-times.ts";

export type TableTiming = Extract<Timing, { kind: "table" }>;

type Range = readonly [number, number];

/** One measured engine: model, GPU, parallelism, precision. Only measured or fitted figures, never invented ones. */
export interface Profile {
  readonly name: string;
  /** Key of `models`. */
  readonly model: string;
  /** Name of the measured weights on the hub, where it is not the model's own. */
  readonly hub?: string;
  readonly gpu: string;
  readonly tp: number;
  readonly precision: string;
  readonly engine: string;
  /** Memory of one GPU. */
  readonly gpuMemoryBytes: number;
  /** KV cache bytes of all ranks together. */
  readonly kvBytesPerToken: number;
  /** KV pool in tokens, estimated for the default memory share. */
  readonly poolTokens: number;
  /** Inputs for which the fit's error holds; outside, the form goes on with its last slopes. */
  readonly valid: {
    readonly tokensPerStep: Range;
    readonly prefixTokens: Range;
    readonly sequences: Range;
    readonly contextEach: Range;
  };
  readonly timing: TableTiming;
}
