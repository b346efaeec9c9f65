/** What is one run of `load`, once all options are read? */
import type { Ramp } from "./arrivals.ts";
import type { DatasetOptions } from "./datasets/index.ts";
import type { Slo } from "./measures.ts";
import type { BodySettings } from "./requests/body.ts";
import type { FlatMetric } from "./vllm-keys.ts";

export type LoopSettings =
  | { readonly kind: "closed" }
  | {
      readonly kind: "open";
      readonly pattern: "constant" | "poisson" | "gamma";
      /** Requests per second; Infinity: all at once. */
      readonly rate: number;
      readonly burstiness: number;
      readonly ramp: Ramp | null;
      readonly rescale: boolean;
    }
  | { readonly kind: "schedule"; readonly speedup: number };

export interface Settings extends BodySettings {
  /** Scheme, host, port and a path before all others; without a slash at its end. */
  readonly url: URL;
  /** Null: that of the dialect. */
  readonly endpoint: string | null;
  /** Null: the first one that the server names. */
  readonly model: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly insecure: boolean;
  /** Certificates to trust, as PEM; null: the system's. */
  readonly ca: string | null;

  readonly loop: LoopSettings;
  /** Null: no limit (open loop). */
  readonly concurrency: number | null;
  readonly count: number | null;
  readonly durationS: number | null;
  readonly graceS: number;
  readonly warmUpCount: number;
  readonly warmUpS: number;

  readonly dataset: Omit<DatasetOptions, "chat" | "count" | "seed" | "limit">;
  readonly skipBad: boolean;

  readonly slo: Slo | null;
  readonly metrics: readonly FlatMetric[];
  readonly percentiles: readonly number[];

  readonly cancelShare: number;
  readonly cancelAfterS: number;
  readonly slowShare: number;
  readonly seed: number;
  readonly pooled: boolean;
  readonly timeoutS: number;
  /** How often a request that got no answer is sent again at most. */
  readonly retries: number;
  /** Null: the server's metrics are left alone. */
  readonly metricsUrl: string | null;
  readonly metricsIntervalS: number;

  /** Where the truth comes from that the measures are compared with: the server itself, or its log. Null: they are not. */
  readonly truth: { readonly log: string | null } | null;

  readonly label: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly detailed: boolean;
  /** As typed, for the report. */
  readonly command: string;
  readonly version: string;
}
