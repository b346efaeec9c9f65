/** Objects that the handlers of HTTP and gRPC share. */
import type { LiveCell } from "../../../base/live-value.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { HeldMessages } from "../../../wire/grpc/held-messages.ts";
import type { WaitingBytes } from "../../../wire/http/waiting-bytes.ts";
import type { TritonLogSettings, TritonServerConfig } from "../config/triton-config.ts";
import type { SharedMemory } from "../tensors/shared-memory.ts";
import type { TritonFaults } from "./faults.ts";
import type { ForwardPattern } from "./forwarded.ts";
import type { HeldBodies } from "./held-bodies.ts";
import type { TritonServer } from "./server.ts";
import type { TraceSettings } from "./trace-settings.ts";

/** KV cache blocks of the engine that serves TensorRT-LLM's models. */
export interface KvCache {
  readonly usedBlocks: number;
  readonly blocks: number;
  readonly tokensPerBlock: number;
}

export interface ServerAround {
  readonly server: TritonServer;
  readonly config: TritonServerConfig;
  readonly memory: SharedMemory;
  readonly traces: TraceSettings;
  /** Settings of `/v2/logging`. */
  readonly logging: LiveCell<TritonLogSettings>;
  readonly faults: TritonFaults;
  /** Selects the HTTP headers that become request parameters. Null: none. */
  readonly forwards: ForwardPattern | null;
  /** Bytes of answers that clients have not read yet, over HTTP and gRPC. */
  readonly waiting: WaitingBytes;
  /** Memory of large HTTP bodies. */
  readonly bodies: HeldBodies;
  /** Memory of gRPC messages. */
  readonly messages: HeldMessages;
  /** Yields to the event loop between pieces of large work, and counts streams that begin. */
  readonly turns: Pick<Backend, "nowUs" | "after" | "consumed" | "opened">;
  /**
   * Returns the state of the KV cache, or null if no model of TensorRT-LLM's backend is loaded or if the version does not
   * report it.
   */
  readonly kvCache: () => KvCache | null;
}
