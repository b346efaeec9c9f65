/** Generates random histories of a sequence batcher: its rules, requests of sequences, and other events. */
import fc from "fast-check";
import { SequenceBatcher } from "../../../../src/servers/triton/scheduling/sequence-batcher.ts";
import type { SequenceId, SequenceRules } from "../../../../src/servers/triton/scheduling/sequences.ts";

export class Request {
  readonly batchSize = 1;
  readonly priority = 0;
  cancelled = false;
  constructor(
    public sequenceId: SequenceId,
    public sequenceStart = false,
    readonly sequenceEnd = false,
    readonly timeoutUs = 0,
    readonly likeness = "",
  ) {}
  begin(id: bigint): void {
    this.sequenceId = id;
    this.sequenceStart = true;
  }
}

export const DIRECT = { kind: "direct", delayUs: 0, leastUse: 0 } as const;
export const OLDEST = { kind: "oldest", maxBatchSize: 4, preferred: [4], delayUs: 0 } as const;
export const rulesOf = (more: Partial<SequenceRules>): SequenceRules => ({
  model: "m",
  instances: 1,
  slots: 2,
  idleUs: 1000,
  strategy: DIRECT,
  iterative: false,
  ...more,
});
export const of = (more: Partial<SequenceRules>) => new SequenceBatcher<Request>(rulesOf(more));

export type Event =
  | { id: number; start: boolean; end: boolean; timeoutUs: number; likeness: string }
  | { passUs: number }
  | { frees: number }
  | { cancels: number }
  | { wakes: true };
export const event: fc.Arbitrary<Event> = fc.oneof(
  {
    arbitrary: fc.record({
      id: fc.integer({ min: 1, max: 5 }),
      start: fc.boolean(),
      end: fc.boolean(),
      timeoutUs: fc.constantFrom(0, 0, 40),
      likeness: fc.constantFrom("a", "a", "b"),
    }),
    weight: 5,
  },
  {
    arbitrary: fc.record({ passUs: fc.oneof(fc.integer({ min: 0, max: 150 }), fc.constantFrom(30, 31, 40)) }),
    weight: 2,
  },
  { arbitrary: fc.record({ frees: fc.nat(2) }), weight: 4 },
  { arbitrary: fc.record({ cancels: fc.nat(20) }), weight: 1 },
  { arbitrary: fc.record({ wakes: fc.constant(true as const) }), weight: 1 },
);
export const rules = fc.record({
  instances: fc.integer({ min: 1, max: 2 }),
  slots: fc.integer({ min: 1, max: 3 }),
  idleUs: fc.constantFrom(100, 1000),
  strategy: fc.constantFrom(DIRECT, OLDEST, { ...DIRECT, delayUs: 30, leastUse: 1 }, { ...OLDEST, delayUs: 30 }),
});
