/**
 * Lists the differences between the supported versions of Triton. 2.51 was recorded from a real server. 2.73 follows the
 * sources of 2026 (server e1db8a603d86, core 73aad7c3348d).
 */
import type { TritonVersion } from "../config/triton-config.ts";
import type { StatusCode } from "./status.ts";

/** Returns the properties in which 2.73 (`is273`) and 2.51 differ. */
const factsOf = (is273: boolean) => ({
  /** Version in the server metadata. */
  version: is273 ? "2.73.0" : "2.51.0",
  unknownModel: (is273 ? "INVALID_ARG" : "NOT_FOUND") as StatusCode,
  /** Words before the instance name in errors that a Python model raised. */
  instanceWord: is273 ? "model instance" : "model",
  /** True if configurations may contain newer fields, such as `model_metrics`. */
  laterFields: is273,
  /** True if `histogram_latencies=true` adds the first-response histogram. If false, the setting is accepted without effect. */
  firstResponse: is273,
  /** True if `nv_model_load_duration_secs` exists. */
  loadDuration: is273,
  /** True if a header length that is not a number is rejected. If false, it counts as 0. */
  readsHeaderLength: is273,
  /** True if a dead model process makes the model and the server not ready. */
  deadIsUnready: is273,
  /** Error for the registration of a CUDA shared memory region. */
  cudaRefusal: (region: string): string =>
    is273
      ? `failed to register CUDA shared memory region: '${region}', GPUs not supported`
      : "failed to register shared memory region: invalid args",
  /** True if gRPC accepts new requests during shutdown until the last request has ended. If false, it accepts none. */
  acceptsGrpcAtShutdown: !is273,
  /** True if `grpc.health.v1.Health/Watch` exists. */
  watchesHealth: is273,
  /** True if responses of `/generate` report the use of TensorRT-LLM's KV cache when a request header asks for it. */
  tellsLoad: is273,
  /**
   * True if `/generate` turns an empty list into an empty tensor with the input's dimensions. If false, the tensor has no
   * dimensions.
   */
  emptyTensors: !is273,
  /** True if the index reports a non-boolean `ready` as an invalid argument. If false, it reports a JSON type error. */
  checksReady: is273,
  /** True if an unload request with invalid JSON is rejected. If false, the body is ignored. */
  readsUnload: is273,
  /** True if a correlation id is rejected when its type does not fit the control input. */
  checksSequenceId: is273,
  /** True if a forwarded header with the name of one of Triton's own parameters is rejected. */
  refusesForwarded: is273,
  /** True if errors in sampling parameters of the vLLM backend appear only in the log. */
  losesSamplingErrors: is273,
  /** Error for JSON data with fewer elements than the tensor's shape needs. */
  missingElements: is273
    ? "Failed to parse 'data' field: shape does not match true shape"
    : "Unable to parse 'data': Shape does not match true shape of 'data' field",
});
export type VersionFacts = Readonly<ReturnType<typeof factsOf>>;

export const TRITON_VERSIONS: Readonly<Record<TritonVersion, VersionFacts>> = {
  "2.51": factsOf(false),
  "2.73": factsOf(true),
};
