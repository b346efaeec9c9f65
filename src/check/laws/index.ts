/** All laws, in the order of the documentation. */
import type { Law } from "../law.ts";
import { cross } from "./cross.ts";
import { dynamo } from "./dynamo.ts";
import { general } from "./general.ts";
import { overTime } from "./over-time.ts";
import { tritonLaws } from "./triton.ts";
import { trtllmLaws } from "./trtllm.ts";
import { trtllmServe } from "./trtllm-serve.ts";
import { vllmLaws } from "./vllm.ts";

const anyDialect = [...general, ...overTime].sort((a, b) => a.id.localeCompare(b.id));

export const laws: readonly Law[] = [
  ...anyDialect,
  ...vllmLaws,
  ...trtllmLaws,
  ...trtllmServe,
  ...tritonLaws,
  ...dynamo,
  ...cross,
];
