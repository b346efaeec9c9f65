/** Settings of one run of `load`, after all options are read. */
import type { OpenLoop } from "./arrivals.ts";
import type { DatasetOptions } from "./datasets/index.ts";
import type { Slo } from "./measures.ts";
import type { BodySettings } from "./requests/body.ts";
import type { FlatMetric } from "./vllm-keys.ts";

export type LoopSettings =
  | { readonly kind: "closed" }
  | ({ readonly kind: "open" } & Omit<OpenLoop, "count" | "durationUs" | "seed">)
  | { readonly kind: "schedule"; readonly speedup: number };

export interface Settings extends BodySettings {
  /** Scheme, host, port and base path, without a slash at the end. */
  readonly url: URL;
  /** Path of the API. Null for the default of the dialect. */
  readonly endpoint: string | null;
  /** Model name. Null for the first model that the server lists. */
  readonly model: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly insecure: boolean;
  /** Certificates to trust, as PEM. Null for the system's. */
  readonly ca: string | null;

  readonly loop: LoopSettings;
  /** Maximum number of requests in progress. Null for no limit (open loop). */
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

  /** Share of requests that are cancelled, from 0 to 1. `slowShare`: share of slow readers. */
  readonly cancelShare: number;
  readonly cancelAfterS: number;
  readonly slowShare: number;
  readonly seed: number;
  readonly pooled: boolean;
  readonly timeoutS: number;
  /** Maximum number of times that a request without an answer is sent again. */
  readonly retries: number;
  /** URL of the server's metrics. Null if they are not read. */
  readonly metricsUrl: string | null;
  readonly metricsIntervalS: number;

  /** Source of the truth that the measurements are compared with: the server, or its log file. Null for no comparison. */
  readonly truth: { readonly log: string | null } | null;

  readonly label: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly detailed: boolean;
  /** Command line as typed, for the report. */
  readonly command: string;
  readonly version: string;
}
