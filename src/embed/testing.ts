/**
 * `import … from "llm-understudy/testing"`: the laws of metrics as a library, and loads to try them under. Needs fast-check
 * beside it: the arbitraries must come from the fast-check that runs the property, so it is the user's own.
 */

export * from "../tools/check/index.ts";
export { type Mix, type MixOptions, type MixRequest, requestMixes } from "../tools/check/request-mixes.ts";
export { type MixOutcome, type SendOptions, sendMix } from "../tools/check/send-mix.ts";
export { type SseEvent, type SseStream, type SseStreamOptions, sseStreams } from "../tools/check/sse-streams.ts";
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
