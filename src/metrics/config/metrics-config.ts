/** Configuration of the metrics pages. */

import type { BugName } from "./bug-names.ts";
import type { FakeMetrics } from "./fake-metrics.ts";
import type { MetricsProfile } from "./metrics-profiles.ts";
import type { TritonMetricsConfig } from "./triton-metrics.ts";

/** The server whose families `/metrics` shows. */
export type MetricsRole = "vllm" | "triton" | "understudy";

/** Contents of `/metrics` and of Triton's metrics page. */
export interface MetricsConfig {
  readonly role: MetricsRole;
  /** vLLM version whose names `/metrics` shows, and whether it also shows the names that this version hides. */
  readonly profile: MetricsProfile;
  readonly showHidden: boolean;
  /** Intentional defects of the metrics. */
  readonly bugs: readonly BugName[];
  /** Values that replace true values. */
  readonly fakes?: FakeMetrics;
  /** Contents of the Triton and TensorRT-LLM dialects, and whether they have their own port. */
  readonly triton: TritonMetricsConfig;
}
