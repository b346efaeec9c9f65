/** The model and the GPU from whose measurements the defaults come. */

import type { KvCacheDtype } from "./kv-cache-dtypes.ts";

/** Values that determine the size of the KV pool. */
export interface DeploymentConfig {
  /** Measured engine (a name of `profiles/`) that gave the defaults, independent of the timing. */
  readonly preset: string;
  /** If the model's name chose the preset: the presets for that model, `preset` first. Empty: there is none, and `preset` is the default. */
  readonly presetsOfModel?: readonly string[];
  /** Blocks of the default preset's pool if it was enlarged to hold one request of full length. Absent: it was not. */
  readonly poolGrownFrom?: number;
  /** 0 to 1, as the user gave it; shown in `cache_config_info`. The pool's size already reflects it. */
  readonly gpuMemoryUtilization: number;
  /** As the user gave it; shown in `cache_config_info`. The pool's size already reflects it. Absent: auto. */
  readonly kvCacheDtype?: KvCacheDtype;
  /** As the user gave it, for `cache_config_info`. `engine.numGpuBlocks` already reflects it. */
  readonly numGpuBlocksOverride: number | null;
  /** True if each engine gets a server of its own, on a port of its own. */
  readonly isMultiPort?: true;
  /** Rank of the server's first engine among the engines of all ports. Absent: 0. */
  readonly firstRank?: number;
}
