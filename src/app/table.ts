/** Loads the code of a role when a server of it starts, and gives it its own configuration. */
import type { Role } from "../kernel/role.ts";
import type { OpenAiServerConfig } from "../servers/openai/request/openai-config.ts";
import type { RoleName } from "./config/roles.ts";
import type { ServeConfig } from "./config/serve-config.ts";

export const roles: Readonly<Record<RoleName, (config: ServeConfig) => Promise<Role<OpenAiServerConfig>>>> = {
  vllm: async () => (await import("../servers/vllm/server.ts")).vllm,
  triton: async ({ triton }) => (await import("../servers/triton/server.ts")).triton(given(triton)),
  "trtllm-serve": async ({ trtllm }) => (await import("../servers/trtllm/server.ts")).trtllm(given(trtllm)),
};

/** The configuration of a role, which each server of that role has. */
function given<T>(config: T | undefined): T {
  if (config === undefined) throw new Error("the configuration of the role is missing");
  return config;
}
