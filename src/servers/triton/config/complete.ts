/** Completes the configuration of a Triton server: the values that follow from others, and from the version. */

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
/** The real server knows no limit; this is what a server here holds of one body. */
const BODY_BYTES = 512 * 2 ** 20;

type Given<T, Open extends keyof T> = Omit<T, Open> & Partial<T>;

/** A configuration as single options give it. */
export interface GivenTriton
  extends Omit<
    TritonServerConfig,
    "http" | "grpc" | "openai" | "overHttp" | "overGrpc" | "memory" | "repository" | "rateLimit"
  > {
  readonly http: Given<TritonAddress, "host">;
  readonly grpc: Given<TritonAddress, "host">;
  readonly openai: Given<TritonOpenAiConfig, "host">;
  readonly overHttp: Given<TritonHttpConfig, "maxBodyBytes" | "restricted">;
  readonly overGrpc: Omit<TritonServerConfig["overGrpc"], "tls" | "restricted">;
  readonly memory: Given<TritonMemoryConfig, "cacheBytes" | "clientSharedMemory">;
  readonly repository: Given<TritonRepositoryConfig, "folders">;
}

/** The parts that several options make together. */
export interface TritonChoices {
  /** Folder of models where none is given. */
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

/** Address of HTTP, of metrics, and of the others unless they have their own. */
export function hostOf({ http, openai }: Pick<GivenTriton, "http" | "openai">): string {
  return http.host ?? openai.host ?? DEFAULT_HOST;
}

export function completeTriton(given: GivenTriton, choices: TritonChoices): TritonServerConfig {
  const { version, http, grpc, openai, repository, memory, overHttp, overGrpc } = given;
  const host = hostOf(given);
  const maxInputBytes = version === "2.51" ? null : overHttp.maxInputBytes;
  return {
    ...given,
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
