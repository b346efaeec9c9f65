/** Disturbs published batches by a plan, between their encoding and the sockets. All chance comes from the plan's seed. */
import { mix, type Random, seeded } from "../base/random.ts";
import {
  type PayloadEdit,
  withOtherHashes,
  withUnknownEvent,
  withUnknownField,
  withUnknownRemoval,
  withWrongParent,
} from "./fault-edits.ts";
import type { KvFault, KvFaultPlan } from "./fault-plan.ts";
import type { EncodedBatch } from "./replay.ts";

/** Result of the faults for one batch. */
export interface DisturbedBatch {
  /** Batches for the PUB socket, in their order. */
  readonly sent: readonly EncodedBatch[];
  /** The batch for replays. null: none. */
  readonly kept: EncodedBatch | null;
  /** Milliseconds that these batches, and all later ones, wait. */
  readonly delayMs: number;
  /** True if sequences start again with this batch. */
  readonly isRestart: boolean;
}

const EDITS: readonly (readonly [fault: KvFault, edit: PayloadEdit])[] = [
  ["wrong-parent", withWrongParent],
  ["never-stored", withUnknownRemoval],
  ["unknown-field", withUnknownField],
  ["unknown-event", withUnknownEvent],
];
const CHANCES = 2 ** 32;
/** Batches that a cut replay has at most. */
const CUT_BATCHES_MOST = 4;

export class KvEventFaults {
  readonly #plan: KvFaultPlan;
  readonly #random: Random;
  /** Draws of replays, which must not move those of batches. */
  readonly #replayRandom: Random;
  /** Difference of the engine's sequence and the sent one. */
  #offset = 0;
  /** Sequence of the second publisher's next batch. null: there is no such publisher. */
  #second: number | null = null;
  /** A batch that is sent after the next one. */
  #swapped: EncodedBatch | null = null;
  /** Faults that wait for a batch that they can change. */
  readonly #waiting = new Set<KvFault>();

  constructor(plan: KvFaultPlan, rank: number) {
    this.#plan = plan;
    this.#random = seeded(mix(plan.seed, 2 * rank));
    this.#replayRandom = seeded(mix(plan.seed, 2 * rank + 1));
  }

  /** Disturbs a batch. `number`: its number since the start. */
  disturb(number: number, payload: Buffer): DisturbedBatch {
    const isRestart = this.#strikes("restarted", number) && number > 0;
    if (isRestart) this.#offset = number;
    const batch = { sequence: number - this.#offset, payload: this.#changed(number, payload) };
    const isUnfillable = this.#strikes("unfillable", number);
    const isLost = this.#strikes("lost", number) || isUnfillable || number < (this.#plan.places["joined-late"] ?? 0);
    const isDoubled = this.#strikes("doubled", number);
    const isReordered = this.#strikes("reordered", number);
    const isLate = this.#strikes("late", number);
    const sent = isLost ? [] : isDoubled ? [batch, batch] : [batch];
    const swapped = this.#swapped;
    this.#swapped = isReordered && !isLost && swapped === null ? batch : null;
    return {
      sent: [
        ...(this.#swapped === null ? sent : []),
        ...(swapped === null ? [] : [swapped]),
        ...this.#secondBatch(number, payload),
      ],
      kept: isUnfillable ? null : batch,
      delayMs: isLate ? this.#plan.lateMs : 0,
      isRestart,
    };
  }

  /** Draws for a replay how many batches it has. null: all, and the end marker. */
  replayCut(): number | null {
    const { shares, places } = this.#plan;
    const place = places["replay-cut"];
    if (place !== undefined) return place;
    const isCut = this.#replayRandom() < (shares["replay-cut"] ?? 0) * CHANCES;
    return isCut ? this.#replayRandom() % CUT_BATCHES_MOST : null;
  }

  #strikes(fault: KvFault, number: number): boolean {
    const { shares, places } = this.#plan;
    const share = shares[fault];
    return (share !== undefined && this.#random() < share * CHANCES) || places[fault] === number;
  }

  #changed(number: number, payload: Buffer): Buffer {
    let changed = payload;
    for (const [fault, edit] of EDITS) {
      if (this.#strikes(fault, number)) this.#waiting.add(fault);
      if (!this.#waiting.has(fault)) continue;
      const result = edit(changed, this.#random);
      if (result === null) continue;
      this.#waiting.delete(fault);
      changed = result;
    }
    return changed;
  }

  #secondBatch(number: number, payload: Buffer): readonly EncodedBatch[] {
    if (this.#strikes("second-publisher", number)) this.#second ??= 0;
    if (this.#second === null) return [];
    return [{ sequence: this.#second++, payload: withOtherHashes(payload, this.#random)! }];
  }
}
