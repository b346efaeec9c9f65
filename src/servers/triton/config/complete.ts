/** Completes the configuration of a Triton server: fills in values that depend on other options or on the version. */

import type {
  TritonAddress,
  TritonGrpcTls,
  TritonHttpConfig,
  TritonMemoryConfig,
  TritonOpenAiConfig,
  TritonRepositoryConfig,
  TritonServerConfig,
} from "./triton-config.ts";

const DEFAULT_HOST = "127.0.0.1";
/** Largest body in bytes that this server accepts. The real server has no limit. */
const BODY_BYTES = 512 * 2 ** 20;

type WithDefaults<T, Open extends keyof T> = Omit<T, Open> & Partial<T>;

/** The values of single options, before defaults. */
export interface TritonOptionValues
  extends Omit<
    TritonServerConfig,
    "http" | "grpc" | "openai" | "overHttp" | "overGrpc" | "memory" | "repository" | "rateLimit"
  > {
  readonly http: WithDefaults<TritonAddress, "host">;
  readonly grpc: WithDefaults<TritonAddress, "host">;
  readonly openai: WithDefaults<TritonOpenAiConfig, "host">;
  readonly overHttp: WithDefaults<TritonHttpConfig, "maxBodyBytes" | "restricted">;
  readonly overGrpc: Omit<TritonServerConfig["overGrpc"], "tls" | "restricted">;
  readonly memory: WithDefaults<TritonMemoryConfig, "cacheBytes" | "clientSharedMemory">;
  readonly repository: WithDefaults<TritonRepositoryConfig, "folders">;
}

/** Values that combine several options. */
export interface TritonChoices {
  /** Folder of models if none is configured. */
  readonly shipped: string;
  readonly hasHttp: boolean;
  readonly hasGrpc: boolean;
  readonly hasOpenAi: boolean;
  readonly cacheBytes: TritonMemoryConfig["cacheBytes"];
  readonly restrictedHttp: TritonHttpConfig["restricted"];
  readonly restrictedGrpc: TritonServerConfig["overGrpc"]["restricted"];
  readonly tls: TritonGrpcTls | null;
  readonly rateLimit: TritonServerConfig["rateLimit"];
}

/** Returns the address of HTTP and metrics, and of the other servers unless they have their own. */
export function hostOf({ http, openai }: Pick<TritonOptionValues, "http" | "openai">): string {
  return http.host ?? openai.host ?? DEFAULT_HOST;
}

export function completeTriton(options: TritonOptionValues, choices: TritonChoices): TritonServerConfig {
  const { version, http, grpc, openai, repository, memory, overHttp, overGrpc } = options;
  const host = hostOf(options);
  const maxInputBytes = version === "2.51" ? null : overHttp.maxInputBytes;
  return {
    ...options,
    repository: { folders: [choices.shipped], ...repository },
    memory: { clientSharedMemory: version === "2.51", ...memory, cacheBytes: choices.cacheBytes },
    rateLimit: choices.rateLimit,
    http: choices.hasHttp ? { ...http, host } : null,
    grpc: choices.hasGrpc ? { host, ...grpc } : null,
    openai: choices.hasOpenAi ? { host, ...openai } : null,
    overHttp: {
      ...overHttp,
      maxInputBytes,
      maxBodyBytes: Math.max(BODY_BYTES, maxInputBytes ?? 0),
      restricted: choices.restrictedHttp,
    },
    overGrpc: { ...overGrpc, tls: choices.tls, restricted: choices.restrictedGrpc },
  };
}
