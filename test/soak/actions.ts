/** Lists the actions of clients and operators for each role in a soak run. */
import type { TritonClient } from "../triton/grpc-client.ts";
import type { SoakClient } from "./client.ts";
import type { Draw } from "./draw.ts";
import { openAiActions, trtllmActions, vllmActions } from "./openai-actions.ts";
import { ADMIN_KEY, type RoleName, type SoakFolders, writeFixture } from "./servers.ts";
import { tritonActions } from "./triton-actions.ts";

/** One action of a client or operator. Throws if the server answers wrongly. */
export type Action = (draw: Draw) => Promise<void>;

export interface WeightedAction {
  /** Relative frequency of the action. */
  readonly weight: number;
  readonly name: string;
  readonly run: Action;
}

/** Returns the clients' actions for a role. `grpc`: null unless the role is Triton. */
export function clientActions(role: RoleName, client: SoakClient, grpc: TritonClient | null): WeightedAction[] {
  if (grpc !== null) return tritonActions(client, grpc);
  return [...openAiActions(client), ...(role === "vllm" ? vllmActions(client) : trtllmActions(client))];
}

/** Returns the operators' actions, which run in turn, one every few seconds. */
export function operations(role: RoleName, client: SoakClient, folders: SoakFolders): Action[] {
  let version = 0;
  const post =
    (path: string, body: unknown = {}, headers = {}) =>
    async () =>
      void (await client.post(path, body, [200], headers));
  const get = (path: string) => async () => void (await client.get(path));
  if (role === "trtllm-serve") return [get("/health"), get("/version")];
  if (role === "triton")
    return [
      ...["unload", "load"].map((action) => post(`/v2/repository/models/echo/${action}`)),
      post("/v2/repository/models/ensemble/load"),
      ...[1, 0].map((level) => post("/v2/logging", { log_verbose_level: level })),
    ];
  const admin = { authorization: `Bearer ${ADMIN_KEY}` };
  const timings = ["constant:ttft=50ms,itl=12ms", "constant:ttft=30ms,itl=10ms"];
  return [
    ...timings.map((timing) => post("/admin/config", { timing }, admin)),
    async () => writeFixture(folders, ++version),
    get("/metrics/all"),
    get("/openapi.json"),
  ];
}
