/** Which servers can this program stand in for? What the rooms below a role must know of it; its code: the `server.ts` of a folder of `src/servers/`. */

export interface RoleFacts {
  /** One line for the help. */
  readonly about: string;
  /** The dialect of `/metrics`. */
  readonly metrics: MetricsRole;
}

type MetricsRole = "vllm" | "triton" | "understudy";

export const ROLES = {
  vllm: { about: "vLLM's OpenAI-compatible server", metrics: "vllm" },
  triton: { about: "Triton Inference Server, with options of its own: --role triton --help", metrics: "triton" },
  // What it shows of itself are pages of the role's own: src/servers/trtllm/.
  "trtllm-serve": { about: "TensorRT-LLM's trtllm-serve", metrics: "understudy" },
} as const satisfies Readonly<Record<string, RoleFacts>>;

export type RoleName = keyof typeof ROLES;
export const TRTLLM_SERVE = "trtllm-serve" satisfies RoleName;
export const ROLE_NAMES = Object.keys(ROLES) as readonly RoleName[];

/** As help and docs name them. */
export function rolesText(): string {
  return Object.entries(ROLES)
    .map(([name, { about }]) => `${name} (${about})`)
    .join(", ");
}
