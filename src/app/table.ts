/** Where is the code of each role? Loaded when a server of it starts. */
import type { RoleName } from "../config/roles.ts";
import type { Role } from "../kernel/role.ts";

export const roles: Readonly<Record<RoleName, () => Promise<Role>>> = {
  vllm: async () => (await import("../servers/vllm/server.ts")).vllm,
  triton: async () => (await import("../servers/triton/server.ts")).triton,
  "trtllm-serve": async () => (await import("../servers/trtllm/server.ts")).trtllm,
};
