/** Configuration of requests that fail and of faults that disturb answers. */

import type { FailureType } from "./failure-types.ts";

/** Settings of failing requests, and of the faults that disturb answers. */
export interface FaultsConfig {
  /** Percentage of requests that fail. Absent: no request fails. */
  readonly failureRate?: number;
  /** Kinds of failures to choose from. Absent: all kinds. */
  readonly failureTypes?: readonly FailureType[];
  /** Percentage of answers that a fault disturbs. Absent: no answer is disturbed. */
  readonly faultRate?: number;
  /** Names of the faults to choose from. Absent: all faults that leave other answers intact. */
  readonly faultTypes?: readonly string[];
  /** Path of the file whose rules choose the answers to disturb. */
  readonly faultPlan?: string;
  /** True if a request may order its failure with the header `X-Return-Error`. */
  readonly errorHeader?: boolean;
}
