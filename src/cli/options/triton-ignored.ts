/** Flags of `tritonserver` and of its OpenAI front end that are accepted without effect (`command_line_parser.cc`, 2026). */

import { splitNames } from "./ignored-flags.ts";

/**
 * All flags that are accepted without effect. gRPC's core applies grpc-http2-max-pings-without-data only in clients
 * (`ping_rate_policy.cc`).
 */
export const TRITON_IGNORED: readonly string[] = splitNames(`
  allow-sagemaker allow-vertex-ai backend-config backend-directory buffer-manager-thread-count
  cache-directory chat-template cuda-memory-pool-byte-size cuda-virtual-address-size
  disable-auto-complete-config enable-peer-access grpc-http2-max-pings-without-data
  grpc-infer-allocation-pool-size grpc-infer-thread-count grpc-max-response-pool-size host-policy
  http-thread-count min-supported-compute-capability model-config-name model-load-retry-count
  model-load-thread-count repoagent-directory reuse-grpc-port reuse-http-port sagemaker-port
  sagemaker-safe-port-range sagemaker-thread-count strict-model-config trace-config trace-count trace-file
  trace-level trace-log-frequency trace-rate tritonserver-log-verbose-level uvicorn-log-level
  vertex-ai-default-model vertex-ai-port vertex-ai-thread-count
`);

/** Names of flags, by alias. */
export const TRITON_ALIASES: ReadonlyMap<string, string> = new Map([["model-store", "model-repository"]]);

/** Flags without effect that take no value. */
export const TRITON_IGNORED_SWITCHES: readonly string[] = ["disable-auto-complete-config"];

/** Flags without effect that only the OpenAI front end has. */
export const TRITON_FRONT_END_IGNORED: readonly string[] = [
  "chat-template",
  "tritonserver-log-verbose-level",
  "uvicorn-log-level",
];
