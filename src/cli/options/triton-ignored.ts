/** Which flags of `tritonserver` and of its OpenAI front end are taken without a row of their own? `command_line_parser.cc` (2026). */

/** Triton's, with an effect on nothing here. */
export const TRITON_IGNORED: readonly string[] = [
  "allow-sagemaker",
  "allow-vertex-ai",
  "backend-config",
  "backend-directory",
  "buffer-manager-thread-count",
  "cache-directory",
  "chat-template",
  "cuda-memory-pool-byte-size",
  "cuda-virtual-address-size",
  "disable-auto-complete-config",
  "enable-peer-access",
  // gRPC's core holds it against clients alone: `ping_rate_policy.cc`.
  "grpc-http2-max-pings-without-data",
  "grpc-infer-allocation-pool-size",
  "grpc-infer-thread-count",
  "grpc-max-response-pool-size",
  "host-policy",
  "http-thread-count",
  "min-supported-compute-capability",
  "model-config-name",
  "model-load-retry-count",
  "model-load-thread-count",
  "repoagent-directory",
  "reuse-grpc-port",
  "reuse-http-port",
  "sagemaker-port",
  "sagemaker-safe-port-range",
  "sagemaker-thread-count",
  "strict-model-config",
  "trace-config",
  "trace-count",
  "trace-file",
  "trace-level",
  "trace-log-frequency",
  "trace-rate",
  "tritonserver-log-verbose-level",
  "uvicorn-log-level",
  "vertex-ai-default-model",
  "vertex-ai-port",
  "vertex-ai-thread-count",
];

/** Second names. */
export const TRITON_ALIASES: ReadonlyMap<string, string> = new Map([["model-store", "model-repository"]]);

/** Ignored ones that have no value. */
export const TRITON_IGNORED_SWITCHES: readonly string[] = ["disable-auto-complete-config"];

/** Ignored ones of the OpenAI front end. */
export const TRITON_FRONT_END_IGNORED: readonly string[] = [
  "chat-template",
  "tritonserver-log-verbose-level",
  "uvicorn-log-level",
];
