/** The configuration of failures and faults. */

import type { FailureType } from "./failure-types.ts";

/** Which requests fail, and which answers are disturbed. */
export interface FaultsConfig {
  /** So many of a hundred requests fail; absent: none. Absent types: any. */
  readonly failureRate?: number;
  /** Absent: any. */
  readonly failureTypes?: readonly FailureType[];
  /** So many of a hundred answers are disturbed; absent: none. Absent types: any that reaches its own answer alone. */
  readonly faultRate?: number;
  /** Absent: any that reaches its own answer alone. */
  readonly faultTypes?: readonly string[];
  /** A file of rules by which answers are disturbed. */
  readonly faultPlan?: string;
  /** A request may say by `X-Return-Error` that it fails. */
  readonly errorHeader?: boolean;
}
