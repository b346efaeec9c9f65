/** The configuration of a whole server, with every default filled in: a part for each owner. */

import type { KernelConfig, StartConfig } from "../../kernel/kernel-config.ts";
import type { OpenAiConfig } from "../../servers/openai/request/openai-config.ts";
import type { TritonServerConfig } from "../../servers/triton/config/triton-config.ts";
import type { RoleName } from "./roles.ts";

export interface ServeConfig extends StartConfig {
  readonly role: RoleName;
  readonly openai: OpenAiConfig;
  /** Absent: another server than Triton's. */
  readonly triton?: TritonServerConfig;
  readonly shutdownTimeoutS: number;
  /** Flags of `vllm serve` that were given and mean nothing here. */
  readonly ignoredFlags: readonly string[];
}

/** The configuration as a running server reads it: without the members that `/admin/config` changes. */
export type RunningConfig = Omit<ServeConfig, keyof KernelConfig> & KernelConfig;
