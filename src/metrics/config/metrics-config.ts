/** The configuration of the metrics pages. */

import type { BugName } from "./bug-names.ts";
import type { FakeMetrics } from "./fake-metrics.ts";
import type { MetricsProfile } from "./metrics-profiles.ts";
import type { TritonMetricsConfig } from "./triton-metrics.ts";

/** The server whose families `/metrics` shows. */
export type MetricsRole = "vllm" | "triton" | "understudy";

/** What `/metrics` and Triton's page of metrics show. */
export interface MetricsConfig {
  readonly role: MetricsRole;
  /** Whose names `/metrics` shows, and whether the hidden ones among them too. */
  readonly profile: MetricsProfile;
  readonly showHidden: boolean;
  /** Defects that the metrics have on purpose. */
  readonly bugs: readonly BugName[];
  /** Metrics that show something else than what is so. */
  readonly fakes?: FakeMetrics;
  /** What the Triton and TensorRT-LLM dialects show, and whether they have a port of their own. */
  readonly triton: TritonMetricsConfig;
}
