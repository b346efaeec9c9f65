/** What was the Triton server told? Its flags, resolved; names and defaults are Triton's. Types only, and the versions. */

export const TRITON_VERSION_NAMES = ["2.51", "2.73"] as const;
export type TritonVersion = (typeof TRITON_VERSION_NAMES)[number];

export interface TritonAddress {
  readonly host: string;
  readonly port: number;
}

/** `--http-restricted-api`: these need that header. */
export interface RestrictedApis {
  readonly apis: readonly string[];
  readonly header: string;
  readonly value: string;
}

/** Times of 0: never. Names as gRPC's channel arguments. */
export interface TritonKeepAlive {
  readonly timeMs: number;
  readonly timeoutMs: number;
  readonly withoutCalls: boolean;
  readonly leastIntervalMs: number;
  readonly strikesMost: number;
  readonly ageMs: number;
  readonly graceMs: number;
}

/** Files of gRPC's TLS. */
export interface TritonGrpcTls {
  readonly cert: string;
  readonly key: string;
  /** Clients must have a certificate that this one signed; null: they need none. */
  readonly root: string | null;
}

/** So many of it are there; a device of -1: on each. */
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

/** `--openai`: the front end that speaks OpenAI's API. */
export interface TritonOpenAiConfig extends TritonAddress {
  readonly defaultMaxTokens: number;
  /** "": adapters have no names of their own. */
  readonly loraSeparator: string;
  /** "": none. */
  readonly toolCallParser: string;
  /** Whose tensors requests have; "": by each model's own. */
  readonly backend: string;
}

/** How long a load takes, seconds: so much, and so much more for each GiB of weights. */
export interface TritonLoadTime {
  readonly baseS: number;
  readonly perGibS: number;
}

/** The folders of models, and how they are loaded. */
export interface TritonRepositoryConfig {
  /** At least one folder. */
  readonly folders: readonly string[];
  readonly control: "none" | "explicit" | "poll";
  /** 0: never. */
  readonly pollS: number;
  /** With `explicit`: what is loaded at the start; "*": all. */
  readonly loadModels: readonly string[];
  /** What the load of a model takes that is asked for, or found by a poll, while the server runs. */
  readonly loadTime: TritonLoadTime;
  /** How long each instance of a model is unloading, seconds, when its last request has been answered. */
  readonly unloadS: number;
  readonly namespacing: boolean;
  readonly strictReadiness: boolean;
}

/** What is taken over HTTP. */
export interface TritonHttpConfig {
  /** `--http-max-input-size`; null: this version has no such limit. */
  readonly maxInputBytes: number | null;
  /** Bytes of a body at most, whatever is in it. */
  readonly maxBodyBytes: number;
  readonly restricted: readonly RestrictedApis[];
  /** `--http-header-forward-pattern`; null: none. */
  readonly forward: string | null;
}

/** What is taken over gRPC, and how its connections are kept. */
export interface TritonGrpcConfig {
  /** null: none. */
  readonly tls: TritonGrpcTls | null;
  readonly compression: "none" | "low" | "medium" | "high";
  /** `--grpc-header-forward-pattern`; null: none. */
  readonly forward: string | null;
  /** Most fields of one message over gRPC. */
  readonly messageFields: number;
  readonly keepAlive: TritonKeepAlive;
  readonly restricted: readonly RestrictedApis[];
}

/** Memory of the server, its clients and its GPUs. */
export interface TritonMemoryConfig {
  /** Bytes of the local response cache; null: there is none. */
  readonly cacheBytes: number | null;
  readonly clientSharedMemory: boolean;
  /** `--pinned-memory-pool-byte-size`. */
  readonly pinnedBytes: number;
  /** `--device-memory`: memory of each GPU, bytes; null: that of the preset's, without a preset no limit. */
  readonly deviceBytes: number | null;
  /** `--model-load-gpu-limit`: shares of a GPU's memory that a load may not lead beyond, by GPU. */
  readonly loadLimits: ReadonlyMap<number, number>;
}

/** How the server ends. */
export interface TritonExitConfig {
  readonly timeoutS: number;
  readonly onError: boolean;
}

export interface TritonServerConfig {
  readonly version: TritonVersion;
  /** Name in the metadata. */
  readonly id: string;
  readonly repository: TritonRepositoryConfig;
  /** null: `--allow-http=false`. */
  readonly http: TritonAddress | null;
  /** null: `--allow-grpc=false`. */
  readonly grpc: TritonAddress | null;
  /** null: without `--openai`. */
  readonly openai: TritonOpenAiConfig | null;
  readonly overHttp: TritonHttpConfig;
  readonly overGrpc: TritonGrpcConfig;
  readonly memory: TritonMemoryConfig;
  /** `--rate-limit-resource`, with `--rate-limit=execution_count`; null: off. */
  readonly rateLimit: readonly TritonResource[] | null;
  readonly exit: TritonExitConfig;
  readonly log: TritonLogSettings;
}
