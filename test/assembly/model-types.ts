/** What does the model of the scheduler know of a request, and what does each of its calls give? */
import type { Reason, Status } from "../../assembly/layout.ts";
import type { Block } from "./pool-model.ts";

/** A request as the model needs it; output token k (from 0) is `outputAt(k)`. */
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
  /** The request waits for something of its own until it is unblocked. */
  readonly blocked: boolean;
}

export interface Request {
  readonly spec: Spec;
  readonly tokens: number[];
  outputs: number;
  status: Status;
  /** Tokens computed or scheduled, output expected from steps in flight, tokens in flight, those of before a preemption. */
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
  /** Texts of the full blocks, and how many of the table's blocks are entered. */
  contents: string[];
  entered: number;
  hit: number;
}

export interface Scheduled {
  readonly no: number;
  readonly tokens: number;
  readonly computed: number;
  readonly samples: boolean;
  readonly newBlocks: number;
}

export interface PlanResult {
  readonly rows: Scheduled[];
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
  /** With the first token: prompt tokens found in the cache, and written to it. */
  readonly first: readonly [hit: number, created: number] | null;
}

export interface TakeResult {
  readonly out: Output[];
  readonly lost: number[];
}
