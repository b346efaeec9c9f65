/** Who answers a scrape? Constant for the life of the process, plain data so that it can be posted to a worker. */

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
  /** Label of the first engine of this process; the others follow. */
  readonly engineFirst: number;
  /** Start of the process: seconds since 1970. */
  readonly startedS: number;
  /** Labels of `vllm:cache_config_info` but `engine`. */
  readonly cacheConfig: Labels;
  /** Routes whose requests are counted, in the order of the snapshot's numbers. */
  readonly http: readonly HttpRoute[];
  /** The process that prints is the one that serves: its own families mean something. */
  readonly ownProcess: boolean;
  /** The version whose page vLLM's dialect is, and whether what it has hidden is shown. */
  readonly profile: MetricsProfile;
  readonly showHidden: boolean;
  /** 0: there is no LoRA. Names of the adapters, in the order of their numbers. */
  readonly maxLoras: number;
  /** There is a parser of tool calls. */
  readonly parsesTools?: boolean;
  readonly adapters: readonly string[];
  readonly triton: TritonIdentity;
  /** Defects that are repaired. */
  readonly fixes: readonly FixName[];
  /** Defects that it has on purpose. */
  readonly bugs: readonly BugName[];
  /** What some families show instead of the truth. */
  readonly fakes?: FakeMetrics;
  /** How events of streams leave; absent: nobody is served. */
  readonly streamWrites?: StreamWritesMode;
  /** `--disable-log-stats`: vLLM then shows none of its own families. */
  readonly disableLogStats: boolean;
}

/** What a reader of held copies must know of them; sent once. */
export interface Setup {
  readonly identity: Identity;
  readonly shape: Shape;
  /** Classes of the copies, in their order. */
  readonly refreshes: readonly Refresh[];
  /** Where the copies of several processes lie; `shape` is then that of all together. */
  readonly pages?: Pages;
}
