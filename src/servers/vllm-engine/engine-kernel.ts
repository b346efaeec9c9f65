/** The kernel as an engine behind a front end receives it. Types only. */
import type { Kernel } from "../../kernel/kernel.ts";
import type { OpenAiServerConfig } from "../openai/request/openai-config.ts";
import type { JoinConfig } from "./join-config.ts";

/** The configuration of a server of this kind. */
export interface VllmEngineConfig extends OpenAiServerConfig {
  readonly join: JoinConfig;
}

export type EngineKernel = Kernel<VllmEngineConfig>;
