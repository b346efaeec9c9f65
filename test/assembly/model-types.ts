/** Types of the scheduler's model: a request, and the results of the model's calls. */
import type { Reason, Status } from "../../assembly/layout.ts";
import type { Block } from "./pool-model.ts";

/** A request for the model. `outputAt(k)` is its output token k, counted from 0. */
export interface Spec {
  readonly no: number;
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  readonly outputAt: (k: number) => number;
  readonly stopIds: readonly number[];
  readonly priority: number;
  readonly arrivalUs: number;
  readonly adapter: number;
  readonly salt: string;
  readonly skip: boolean;
  /** The request cannot be admitted until `unblock`. */
  readonly blocked: boolean;
}

export interface Request {
  readonly spec: Spec;
  readonly tokens: number[];
  outputs: number;
  status: Status;
  /**
   * Tokens computed or scheduled; outputs expected from steps in flight; tokens in flight; tokens in flight since before a
   * preemption.
   */
  computed: number;
  expected: number;
  inFlight: number;
  stale: number;
  drop: boolean;
  chunk: boolean;
  preemptions: number;
  /** Preemptions before the request's last output. */
  preemptionsTold: number;
  closed: boolean;
  deferred: boolean;
  blocked: boolean;
  table: Block[];
  /** Texts that stand for the content of full blocks, and how many of the table's blocks are in the prefix cache. */
  contents: string[];
  entered: number;
  hit: number;
}

/** A request's part of a planned step. */
export interface PlanRow {
  readonly no: number;
  readonly tokens: number;
  readonly computed: number;
  readonly samples: boolean;
  readonly newBlocks: number;
}

export interface PlanResult {
  readonly rows: PlanRow[];
  readonly admitted: number;
  readonly preempted: number[];
  readonly undone: number[];
  readonly refused: number[];
  readonly ended: number[];
}

export interface Output {
  readonly no: number;
  readonly token: number;
  readonly reason: Reason | null;
  readonly byStopId: boolean;
  /** Set with the first token: prompt tokens found in the cache, and prompt tokens entered in it. */
  readonly first: readonly [hit: number, created: number] | null;
}

export interface TakeResult {
  readonly out: Output[];
  readonly lost: number[];
}
