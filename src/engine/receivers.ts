/**
 * Delivers the rows of the outbox to an engine's receivers. Plain tokens go through lanes, if there are any. All other
 * rows go to the receivers in the outbox's order.
 */
import { NONE, OUT_FEED, OUT_FIRST, OUT_REASON, OUT_STOP_ID, OUT_WORDS, SLOTS, Word } from "../../assembly/layout.ts";
import type { Clock } from "../base/clock.ts";
import type { Adapters } from "./adapters.ts";
import type { Batch } from "./batch.ts";
import type { FactsRecorder } from "./facts-recorder.ts";
import type { Lanes } from "./interface/lanes.ts";
import { Finish } from "./interface/types.ts";
import type { LiveRequest } from "./live.ts";

const FINISHES = [Finish.Stop, Finish.Length, Finish.Abort, Finish.Error, Finish.Repetition] as const;

export interface ReceiversOptions {
  readonly batch: Batch;
  readonly clock: Clock;
  readonly adapters: Adapters;
  readonly recorder: FactsRecorder | null;
  readonly lanes: Lanes | null;
  /** True if generations are metered. */
  readonly metered: boolean;
  /**
   * Called with an error that a receiver threw. null: the error is thrown to the caller of `deliver`, and the remaining
   * rows are not delivered.
   */
  readonly failed: ((live: LiveRequest, error: unknown) => void) | null;
}

export class Receivers {
  /** By slot. undefined if no receiver is there. */
  readonly bySlot: (LiveRequest | undefined)[] = [];
  count = 0;
  /** Receivers by row of the outbox. While rows are delivered, a receiver may submit a request, which may get the slot of a later row. */
  readonly #rows: (LiveRequest | undefined)[] = [];
  /** Number of receivers that need every token. */
  listening = 0;
  /** Number of receivers whose tokens a client sees as they come. */
  seen = 0;
  #step = 0;
  #boundaryUs = 0;

  constructor(private readonly options: ReceiversOptions) {}

  add(live: LiveRequest): void {
    this.bySlot[live.handle % SLOTS] = live;
    this.count++;
    if (!live.endsOnly) this.listening++;
    if (live.isSeen) this.seen++;
  }

  forget(live: LiveRequest): void {
    live.leave();
    const slot = live.handle % SLOTS;
    // The slot may already belong to the next request.
    if (this.bySlot[slot] === live) this.bySlot[slot] = undefined;
    if (!live.endsOnly) this.listening--;
    if (live.isSeen) this.seen--;
    this.count--;
    this.options.adapters.ended(live);
  }

  /** Delivers the outbox of the step that ended at `boundaryUs`. */
  deliver(boundaryUs: number): void {
    const { batch, recorder, lanes, metered } = this.options;
    this.#boundaryUs = boundaryUs;
    if (this.listening === 0 && recorder === null && !metered) {
      this.#deliverEnds();
      return;
    }
    this.#step = recorder === null ? this.#step + 1 : recorder.begin(boundaryUs);
    lanes?.begin(this.#step, boundaryUs);
    const { out, tokens, words } = batch.core.views;
    const rows = words[Word.OutRows]!;
    this.#look(rows);
    let delivered = 0;
    let nextPart = recorder === null ? Number.POSITIVE_INFINITY : recorder.nextPart;
    for (let i = 0; i < rows; i++) {
      if (delivered >= nextPart) nextPart = recorder!.part();
      const row = i * OUT_WORDS;
      if (lanes?.leads(out[row]!)) {
        const next = lanes.write(out, tokens, i, Math.min(rows, i + Math.ceil(nextPart - delivered)));
        delivered += next - i;
        if (next > i) {
          i = next - 1;
          continue;
        }
      }
      delivered += out[row + 2]!;
      this.#handOver(this.#rows[i], row);
    }
    this.#release(rows);
  }

  /** Clears the references to delivered rows, because the next step may have fewer rows or never come. */
  #release(rows: number): void {
    this.#rows.fill(undefined, 0, rows);
  }

  /** Finds the receivers of the rows. Reads the core's data on new requests now, before a submission changes it. */
  #look(rows: number): void {
    const { batch, adapters } = this.options;
    const { views } = batch.core;
    const { out } = views;
    for (let row = 0, i = 0; i < rows; row += OUT_WORDS, i++) {
      const slot = out[row]!;
      const live = this.bySlot[slot];
      this.#rows[i] = live;
      if (live === undefined || (out[row + 3]! & OUT_FIRST) === 0) continue;
      live.cachedTokens = views.cachedPrompt[slot]! - 1;
      live.scheduledUs = views.scheduledUs[slot]!;
      adapters.first(live);
      live.meter?.first(this.#boundaryUs);
    }
  }

  /** Delivers a row. An error only affects its receiver. */
  #handOver(live: LiveRequest | undefined, row: number): void {
    const { failed } = this.options;
    try {
      this.#hand(live, row);
    } catch (error) {
      if (failed === null || live === undefined) throw error;
      failed(live, error);
    }
  }

  /** Runs `call`, which calls the receiver of `live`. An error only affects this receiver. */
  guarded(live: LiveRequest, call: () => void): void {
    const { failed } = this.options;
    try {
      call();
    } catch (error) {
      if (failed === null) throw error;
      failed(live, error);
    }
  }

  #hand(live: LiveRequest | undefined, row: number): void {
    const { batch, recorder } = this.options;
    const { out, tokens } = batch.core.views;
    const at = out[row + 1]!;
    const count = out[row + 2]!;
    const flags = out[row + 3]!;
    const reason = (flags & OUT_REASON) - 1;
    // An earlier receiver of this step may have ended this generation.
    if (live === undefined || live.ended) {
      recorder?.unheard(out[row]!, count, FINISHES[reason] ?? null);
      return;
    }
    live.settle();
    live.tokens += count;
    if (recorder !== null) live.timeline!.took(this.#step, count);
    if (reason < 0) {
      if (live.endsOnly) return;
      live.receiver.onTokens(tokens, at, count, null, NONE);
      if (recorder !== null && ((flags & OUT_FIRST) !== 0 || live.ended)) recorder.handed(live.timeline!);
      if ((flags & OUT_FEED) === 0) return;
      const more = live.moreOfScript();
      if (more.length > 0 && !live.ended) batch.feed(live.handle, more);
    } else {
      live.ended = true;
      this.forget(live);
      live.counted(batch, live.tokens);
      recorder?.ended(live.timeline!, FINISHES[reason]!, live.tokens, recorder.dueUs);
      this.#tell(live, row);
      recorder?.handed(live.timeline!);
    }
  }

  /** Delivers only ends, because no receiver needs other rows. */
  #deliverEnds(): void {
    const { views } = this.options.batch.core;
    const { out, outEnds } = views;
    const count = views.words[Word.OutEnds]!;
    for (let i = 0; i < count; i++) {
      const slot = out[outEnds[i]! * OUT_WORDS]!;
      const live = this.bySlot[slot];
      this.#rows[i] = live;
      if (live !== undefined) live.cachedTokens = views.cachedPrompt[slot]! - 1;
    }
    for (let i = 0; i < count; i++) {
      const live = this.#rows[i];
      if (live === undefined || live.ended) continue;
      live.ended = true;
      this.forget(live);
      this.guarded(live, () => this.#tell(live, outEnds[i]! * OUT_WORDS));
    }
    this.#release(count);
  }

  /** Calls a receiver for the last time, with the row that ends its generation. */
  #tell(live: LiveRequest, row: number): void {
    const { batch, clock } = this.options;
    const { out, tokens } = batch.core.views;
    const [at, count, flags] = [out[row + 1]!, out[row + 2]!, out[row + 3]!];
    const finish = FINISHES[(flags & OUT_REASON) - 1]!;
    const stopId = flags & OUT_STOP_ID ? tokens[at + count - 1]! : NONE;
    const { meter } = live;
    if (meter === null) {
      live.receiver.onTokens(tokens, at, count, finish, stopId);
      return;
    }
    // Read before the receiver runs, because it may submit a request that takes the slot.
    const outputs = batch.outputsOf(live.handle);
    const handedUs = clock.now();
    live.receiver.onTokens(tokens, at, count, finish, stopId);
    live.passed(finish, outputs, this.#boundaryUs, handedUs, clock.now());
  }
}
