/** The model and the GPU whose measured engine gave the defaults. */

import type { KvCacheDtype } from "./kv-cache-dtypes.ts";

/** What the KV pool follows from. */
export interface DeploymentConfig {
  /** The measured engine (a name of `profiles/`) that gave the defaults, whatever the timing. */
  readonly preset: string;
  /** Where the model's name chose the preset: those measured for it, `preset` first; empty: none, `preset` is the default one. */
  readonly presetsOfModel?: readonly string[];
  /** Blocks of the default preset's pool, which was enlarged to hold one request of full length; absent: it was not. */
  readonly poolGrownFrom?: number;
  /** 0 to 1, as given; the pool's size already follows it. Shown in `cache_config_info`. */
  readonly gpuMemoryUtilization: number;
  /** As given; the pool's size already follows it. Shown in `cache_config_info`. Absent: auto. */
  readonly kvCacheDtype?: KvCacheDtype;
  /** As given, for `cache_config_info`; `engine.numGpuBlocks` already follows it. */
  readonly numGpuBlocksOverride: number | null;
}
