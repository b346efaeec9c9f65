/** What do the handlers of HTTP and gRPC share? */
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

/** Blocks of the engine that serves TensorRT-LLM's models. */
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
  /** Which headers of HTTP become parameters; null: none. */
  readonly forwards: ForwardPattern | null;
  /** Answers that their clients do not read, over HTTP and gRPC. */
  readonly waiting: WaitingBytes;
  /** Memory of large bodies over HTTP. */
  readonly bodies: HeldBodies;
  /** Memory of messages over gRPC. */
  readonly messages: HeldMessages;
  /** Between pieces of what is large; told of each stream that begins. */
  readonly turns: Pick<Backend, "nowUs" | "after" | "consumed" | "opened">;
  /** null: no model of TensorRT-LLM's backend is loaded, or the version does not tell. */
  readonly kvCache: () => KvCache | null;
}
