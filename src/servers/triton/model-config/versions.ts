/**
 * Lists the differences between the supported versions of Triton. 2.51 was recorded from a real server. 2.73 follows the
 * sources of 2026 (server e1db8a603d86, core 73aad7c3348d).
 */
import type { TritonVersion } from "../config/triton-config.ts";
import type { StatusCode } from "./status.ts";

export interface VersionFacts {
  /** Version in the server metadata. */
  readonly version: string;
  readonly unknownModel: StatusCode;
  /** Words before the instance name in errors that a Python model raised. */
  readonly instanceWord: string;
  /** True if configurations may contain newer fields, such as `model_metrics`. */
  readonly laterFields: boolean;
  /** True if `histogram_latencies=true` adds the first-response histogram. If false, the setting is accepted without effect. */
  readonly firstResponse: boolean;
  /** True if `nv_model_load_duration_secs` exists. */
  readonly loadDuration: boolean;
  /** True if a header length that is not a number is rejected. If false, it counts as 0. */
  readonly readsHeaderLength: boolean;
  /** True if a dead model process makes the model and the server not ready. */
  readonly deadIsUnready: boolean;
  /** Error for the registration of a CUDA shared memory region. */
  readonly cudaRefusal: (region: string) => string;
  /** True if gRPC accepts new requests during shutdown until the last request has ended. If false, it accepts none. */
  readonly acceptsGrpcAtShutdown: boolean;
  /** True if `grpc.health.v1.Health/Watch` exists. */
  readonly watchesHealth: boolean;
  /** True if responses of `/generate` report the use of TensorRT-LLM's KV cache when a request header asks for it. */
  readonly tellsLoad: boolean;
  /**
   * True if `/generate` turns an empty list into an empty tensor with the input's dimensions. If false, the tensor has no
   * dimensions.
   */
  readonly emptyTensors: boolean;
  /** True if the index reports a non-boolean `ready` as an invalid argument. If false, it reports a JSON type error. */
  readonly checksReady: boolean;
  /** True if an unload request with invalid JSON is rejected. If false, the body is ignored. */
  readonly readsUnload: boolean;
  /** True if a correlation id is rejected when its type does not fit the control input. */
  readonly checksSequenceId: boolean;
  /** True if a forwarded header with the name of one of Triton's own parameters is rejected. */
  readonly refusesForwarded: boolean;
  /** True if errors in sampling parameters of the vLLM backend appear only in the log. */
  readonly losesSamplingErrors: boolean;
  /** Error for JSON data with fewer elements than the tensor's shape needs. */
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
    acceptsGrpcAtShutdown: true,
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
    acceptsGrpcAtShutdown: false,
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
