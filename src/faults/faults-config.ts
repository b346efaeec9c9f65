/** Configuration of failures and faults. */

import type { FailureType } from "./failure-types.ts";

/** Settings of failing requests, and of the faults that disturb answers. */
export interface FaultsConfig {
  /** Percentage of requests that fail. Absent: none. */
  readonly failureRate?: number;
  /** Failures to choose from. Absent: all. */
  readonly failureTypes?: readonly FailureType[];
  /** Percentage of answers that a fault disturbs. Absent: none. */
  readonly faultRate?: number;
  /** Faults to choose from. Absent: all that affect only their own answer. */
  readonly faultTypes?: readonly string[];
  /** File with rules that choose the answers to disturb. */
  readonly faultPlan?: string;
  /** True if a request may order its failure with the header `X-Return-Error`. */
  readonly errorHeader?: boolean;
}
