/** Configuration of an engine that joins a front end of vLLM. */
import type { FrontFault } from "./faults/front-faults.ts";

export interface JoinConfig {
  /** Host of the front end's handshake. */
  readonly address: string;
  /** Port of the front end's handshake. */
  readonly rpcPort: number;
  /** Rank of the engine. The front end knows the engine by it. */
  readonly rank: number;
  /** Faults that the front end sees. Absent: none. */
  readonly faults?: readonly FrontFault[];
}

/** Defaults of `vllm serve` 0.33. */
export const JOIN_DEFAULTS: JoinConfig = { address: "127.0.0.1", rpcPort: 29550, rank: 0 };
