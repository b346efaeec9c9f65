/**
 * Declares the resolved configuration of the Triton server. Names and defaults are Triton's. Contains only types and the list
 * of versions.
 */

import type { KeepAlive } from "../../../wire/http2/pings.ts";

export const TRITON_VERSION_NAMES = ["2.51", "2.73"] as const;
export type TritonVersion = (typeof TRITON_VERSION_NAMES)[number];

export interface TritonAddress {
  readonly host: string;
  readonly port: number;
}

/** `--http-restricted-api`: requests to these APIs need the header. */
export interface RestrictedApis {
  readonly apis: readonly string[];
  readonly header: string;
  readonly value: string;
}

/** Paths of the PEM files for gRPC over TLS. */
export interface TritonGrpcTls {
  readonly cert: string;
  readonly key: string;
  /** CA certificate that must have signed the clients' certificates. Null: clients need no certificate. */
  readonly root: string | null;
}

/** An amount of a rate limiter resource. `device` -1: on each device. */
export interface TritonResource {
  readonly name: string;
  readonly count: number;
  readonly device: number;
}

export interface TritonLogSettings {
  readonly info: boolean;
  readonly warning: boolean;
  readonly error: boolean;
  readonly verbose: number;
  readonly format: string;
  readonly file: string;
}

/** `--openai`: the front end for OpenAI's API. */
export interface TritonOpenAiConfig extends TritonAddress {
  readonly defaultMaxTokens: number;
  /** Separator between model and adapter in model names. "": adapters have no model names. */
  readonly loraSeparator: string;
  /** Name of the tool call parser, or "". */
  readonly toolCallParser: string;
  /** Backend whose tensors the requests use. "": depends on each model. */
  readonly backend: string;
}

/** Duration of a load in seconds: a base, and an addition per GiB of weights. */
export interface TritonLoadTime {
  readonly baseS: number;
  readonly perGibS: number;
}

/** Model folders, and how models are loaded. */
export interface TritonRepositoryConfig {
  /** At least one folder. */
  readonly folders: readonly string[];
  readonly control: "none" | "explicit" | "poll";
  /** Seconds between polls. 0: never. */
  readonly pollS: number;
  /** Models to load at the start with `explicit`. "*": all. */
  readonly loadModels: readonly string[];
  /** Duration of loads while the server runs, by request or poll. */
  readonly loadTime: TritonLoadTime;
  /** Seconds that each instance takes to unload after its last request. */
  readonly unloadS: number;
  readonly namespacing: boolean;
  readonly strictReadiness: boolean;
}

/** Limits and settings of HTTP. */
export interface TritonHttpConfig {
  /** `--http-max-input-size`. Null: this version has no such limit. */
  readonly maxInputBytes: number | null;
  /** Largest body in bytes, whatever its content. */
  readonly maxBodyBytes: number;
  readonly restricted: readonly RestrictedApis[];
  /** `--http-header-forward-pattern`. Null: forwards no headers. */
  readonly forward: string | null;
}

/** Limits and settings of gRPC and its connections. */
export interface TritonGrpcConfig {
  /** Null: no TLS. */
  readonly tls: TritonGrpcTls | null;
  readonly compression: "none" | "low" | "medium" | "high";
  /** `--grpc-header-forward-pattern`. Null: forwards no headers. */
  readonly forward: string | null;
  /** Most fields in one message. */
  readonly messageFields: number;
  /** Limits of connections and of their pings. */
  readonly keepAlive: Omit<KeepAlive, "idleMs">;
  readonly restricted: readonly RestrictedApis[];
}

/** Memory of the server, its clients and its GPUs. */
export interface TritonMemoryConfig {
  /** Size of the local response cache in bytes. Null: no cache. */
  readonly cacheBytes: number | null;
  readonly clientSharedMemory: boolean;
  /** `--pinned-memory-pool-byte-size`. */
  readonly pinnedBytes: number;
  /** `--device-memory`: memory of each GPU in bytes. Null: the memory of the preset's GPU, or unlimited without a preset. */
  readonly deviceBytes: number | null;
  /** `--model-load-gpu-limit`: largest share of a GPU's memory that may be in use for a load to succeed, by GPU. */
  readonly loadLimits: ReadonlyMap<number, number>;
}

/** Shutdown settings. */
export interface TritonExitConfig {
  readonly timeoutS: number;
  readonly onError: boolean;
}

export interface TritonServerConfig {
  readonly version: TritonVersion;
  /** Server name in the metadata. */
  readonly id: string;
  readonly repository: TritonRepositoryConfig;
  /** Null with `--allow-http=false`. */
  readonly http: TritonAddress | null;
  /** Null with `--allow-grpc=false`. */
  readonly grpc: TritonAddress | null;
  /** Null without `--openai`. */
  readonly openai: TritonOpenAiConfig | null;
  readonly overHttp: TritonHttpConfig;
  readonly overGrpc: TritonGrpcConfig;
  readonly memory: TritonMemoryConfig;
  /** `--rate-limit-resource`, with `--rate-limit=execution_count`. Null: the rate limiter is off. */
  readonly rateLimit: readonly TritonResource[] | null;
  readonly exit: TritonExitConfig;
  readonly log: TritonLogSettings;
}
