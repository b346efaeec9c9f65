/** Describes the server that answers a scrape. Constant for the life of the process, plain data so that it can be posted to a worker. */

import type { FixName } from "../../engine/config/engine-config.ts";
import type { StreamWritesMode } from "../../wire/lanes/stream-write-modes.ts";
import type { BugName } from "../config/bug-names.ts";
import type { FakeMetrics } from "../config/fake-metrics.ts";
import type { MetricsProfile } from "../config/metrics-profiles.ts";
import type { TritonIdentity } from "../ensemble/identity.ts";
import type { MetricsDialectName } from "./dialect-names.ts";
import type { Shape } from "./flat.ts";
import type { HttpRoute } from "./http-counts.ts";
import type { Pages } from "./shared.ts";
import type { Refresh } from "./table.ts";
import type { Labels } from "./text.ts";

export interface Identity {
  /** The dialect of `/metrics`. */
  readonly role: MetricsDialectName;
  /** The first served model name. */
  readonly modelName: string;
  /** Label of the first engine of this process. The others follow. */
  readonly engineFirst: number;
  /** Start of the process, in seconds since 1970. */
  readonly startedS: number;
  /** Labels of `vllm:cache_config_info` except `engine`. */
  readonly cacheConfig: Labels;
  /** Routes whose requests are counted, in the order of the snapshot's numbers. */
  readonly http: readonly HttpRoute[];
  /** True if the process that prints is also the one that serves, so that process metrics are meaningful. */
  readonly ownProcess: boolean;
  /** vLLM version whose page is shown, and whether hidden metrics are shown, too. */
  readonly profile: MetricsProfile;
  readonly showHidden: boolean;
  /** Largest number of running adapters; 0 without LoRA. Then the names of the adapters by number. */
  readonly maxLoras: number;
  /** True if tool calls are parsed. */
  readonly parsesTools?: boolean;
  readonly adapters: readonly string[];
  readonly triton: TritonIdentity;
  /** Defects that are repaired. */
  readonly fixes: readonly FixName[];
  /** Intentional defects. */
  readonly bugs: readonly BugName[];
  /** Values that some families show instead of the true ones. */
  readonly fakes?: FakeMetrics;
  /** Mode in which events of streams are written. Absent: no requests are served. */
  readonly streamWrites?: StreamWritesMode;
  /** `--disable-log-stats`: vLLM then shows none of its own families. */
  readonly disableLogStats: boolean;
}

/** The description of snapshot copies that their reader needs. Sent once. */
export interface Setup {
  readonly identity: Identity;
  readonly shape: Shape;
  /** Refresh classes of the copies, in their order. */
  readonly refreshes: readonly Refresh[];
  /** Files with the copies of several processes. `shape` is then that of all processes together. */
  readonly pages?: Pages;
}
