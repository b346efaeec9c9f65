/** Defines the complete configuration of a server, with all defaults. It consists of the configurations of the server's parts. */

import type { KernelConfig, StartConfig } from "../../kernel/kernel-config.ts";
import type { OpenAiConfig } from "../../servers/openai/request/openai-config.ts";
import type { TritonServerConfig } from "../../servers/triton/config/triton-config.ts";
import type { JoinConfig } from "../../servers/vllm-engine/join-config.ts";
import type { RoleName } from "./roles.ts";

export interface ServeConfig extends StartConfig {
  readonly role: RoleName;
  readonly openai: OpenAiConfig;
  /** Present only in the role `triton`. */
  readonly triton?: TritonServerConfig;
  /** Present only in the role `vllm-engine`. */
  readonly join?: JoinConfig;
  readonly shutdownTimeoutS: number;
}

/** The configuration that a running server reads. It lacks the members that `/admin/config` changes. */
export type RunningConfig = Omit<ServeConfig, keyof KernelConfig> & KernelConfig;
