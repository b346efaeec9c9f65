/** All laws, in the order of docs/reference/laws.md. */
import type { Law } from "../pages/law.ts";
import { clockLaws } from "./clock.ts";
import { cross } from "./cross.ts";
import { dynamo } from "./dynamo.ts";
import { general } from "./general.ts";
import { overTime } from "./over-time.ts";
import { tritonLaws } from "./triton.ts";
import { trtllmLaws } from "./trtllm.ts";
import { trtllmServe } from "./trtllm-serve.ts";
import { counts, timeLaws } from "./vllm-counts.ts";
import { gauges } from "./vllm-gauges.ts";
import { whole } from "./vllm-whole.ts";

const byId = (a: Law, b: Law) => a.id.localeCompare(b.id);

/** All laws of metrics, in the order in which reports and docs/reference/laws.md list them. */
export const laws: readonly Law[] = [
  ...[...general, ...overTime, ...clockLaws].sort(byId),
  ...[...gauges, ...counts, ...timeLaws, ...whole].sort(byId),
  ...trtllmLaws,
  ...trtllmServe,
  ...tritonLaws,
  ...dynamo,
  ...cross,
];
