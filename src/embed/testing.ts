/**
 * Entry of `import … from "llm-understudy/testing"`: the laws of metrics and KV events, and loads to check them under. Needs fast-check as a
 * dependency of the user, because arbitraries must come from the same fast-check that runs the property.
 */

export * from "../tools/check/index.ts";
export { type Mix, type MixOptions, type MixRequest, requestMixes } from "../tools/check/request-mixes.ts";
export { type MixOutcome, type SendOptions, sendMix } from "../tools/check/send-mix.ts";
export { type SseEvent, type SseStream, type SseStreamOptions, sseStreams } from "../tools/check/sse-streams.ts";
export * from "../tools/kv-check/index.ts";
export { FAULTS, type FaultDescription, type FaultPlansOptions, faultPlans } from "../tools/stress/fault-plans.ts";
export {
  type SeenError,
  type SeenToolCall,
  type SeenUsage,
  type StressedClient,
  type StressOptions,
  type StressResult,
  type StressSeen,
  stress,
} from "./stress.ts";
