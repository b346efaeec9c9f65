/**
 * What differs between the versions of Triton that are stood in for? 2.51 was recorded; 2.73 is what the sources of 2026 say
 * (server e1db8a603d86, core 73aad7c3348d).
 */
import type { TritonVersion } from "../config/triton-config.ts";
import type { StatusCode } from "./status.ts";

export interface VersionFacts {
  /** As the server's metadata tell it. */
  readonly version: string;
  readonly unknownModel: StatusCode;
  /** Stands before an instance's name in what a Python model raised. */
  readonly instanceWord: string;
  /** Fields of configurations that came later are known, `model_metrics` among them. */
  readonly laterFields: boolean;
  /** `histogram_latencies=true` shows the first response; else the setting is taken, and nothing comes of it. */
  readonly firstResponse: boolean;
  /** `nv_model_load_duration_secs` is there. */
  readonly loadDuration: boolean;
  /** A header length that is no number is refused, else read as 0. */
  readonly readsHeaderLength: boolean;
  /** A model whose process has died is not ready, nor is the server. */
  readonly deadIsUnready: boolean;
  /** What a region of CUDA's memory is refused with. */
  readonly cudaRefusal: (region: string) => string;
  /** At the end gRPC takes new requests until the last one has ended, else none. */
  readonly grpcGoesOn: boolean;
  /** `grpc.health.v1.Health/Watch` is there. */
  readonly watchesHealth: boolean;
  /** Answers of `/generate` tell how full TensorRT-LLM's KV cache is, where a header asks. */
  readonly tellsLoad: boolean;
  /** On `/generate`: an empty list is an empty tensor of the input's dimensions, else one without any. */
  readonly emptyTensors: boolean;
  /** The index refuses a `ready` that is no boolean as an argument, else as any value of another kind. */
  readonly checksReady: boolean;
  /** An unload's body that is no JSON is refused, else it says nothing. */
  readonly readsUnload: boolean;
  /** A sequence's id of another kind than its control input wants is refused. */
  readonly checksSequenceId: boolean;
  /** A header that is to be forwarded and has the name of a parameter of Triton's own is refused. */
  readonly refusesForwarded: boolean;
  /** What is wrong with sampling parameters for vLLM's backend stands in its log alone. */
  readonly losesSamplingErrors: boolean;
  /** What is said of JSON with fewer elements than its tensor has. */
  readonly missingElements: string;
}

export const TRITON_VERSIONS: Readonly<Record<TritonVersion, VersionFacts>> = {
  "2.51": {
    version: "2.51.0",
    unknownModel: "NOT_FOUND",
    instanceWord: "model",
    laterFields: false,
    firstResponse: false,
    loadDuration: false,
    readsHeaderLength: false,
    deadIsUnready: false,
    cudaRefusal: () => "failed to register shared memory region: invalid args",
    grpcGoesOn: true,
    watchesHealth: false,
    tellsLoad: false,
    emptyTensors: true,
    checksReady: false,
    readsUnload: false,
    checksSequenceId: false,
    refusesForwarded: false,
    losesSamplingErrors: false,
    missingElements: "Unable to parse 'data': Shape does not match true shape of 'data' field",
  },
  "2.73": {
    version: "2.73.0",
    unknownModel: "INVALID_ARG",
    instanceWord: "model instance",
    laterFields: true,
    firstResponse: true,
    loadDuration: true,
    readsHeaderLength: true,
    deadIsUnready: true,
    cudaRefusal: (region) => `failed to register CUDA shared memory region: '${region}', GPUs not supported`,
    grpcGoesOn: false,
    watchesHealth: true,
    tellsLoad: true,
    emptyTensors: false,
    checksReady: true,
    readsUnload: true,
    checksSequenceId: true,
    refusesForwarded: true,
    losesSamplingErrors: true,
    missingElements: "Failed to parse 'data' field: shape does not match true shape",
  },
};
