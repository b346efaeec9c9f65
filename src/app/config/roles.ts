/** Lists the servers that this program can stand in for, with facts about each. The code of the servers is in `src/servers/`. */

/** `about`: name of the real server, for the help text. `metrics`: dialect of `/metrics`. */
export const ROLES = {
  vllm: { about: "vLLM's OpenAI-compatible server", metrics: "vllm" },
  triton: { about: "Triton Inference Server, with options of its own: --role triton --help", metrics: "triton" },
  // trtllm-serve's own metrics have other routes: src/servers/trtllm/.
  "trtllm-serve": { about: "TensorRT-LLM's trtllm-serve", metrics: "understudy" },
  "vllm-engine": { about: "an engine behind a real front end of vLLM", metrics: "vllm" },
} as const satisfies Readonly<Record<string, { about: string; metrics: "vllm" | "triton" | "understudy" }>>;

export type RoleName = keyof typeof ROLES;
export const TRTLLM_SERVE = "trtllm-serve" satisfies RoleName;
export const VLLM_ENGINE = "vllm-engine" satisfies RoleName;
export const ROLE_NAMES = Object.keys(ROLES) as readonly RoleName[];

/** Lists the roles for help text and docs. */
export function rolesText(): string {
  return Object.entries(ROLES)
    .map(([name, { about }]) => `${name} (${about})`)
    .join(", ");
}
