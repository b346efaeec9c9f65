/**
 * Who gets which row of the outbox? The receivers of an engine by slot. Plain tokens go by their lanes, where there are any; the
 * rest is the receivers', in the outbox's order.
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
  /** Somebody counts generations as they begin and end. */
  readonly metered: boolean;
  /** Called with what a receiver threw; null: that is thrown to the caller of `deliver`, and the rest is not handed out. */
  readonly failed: ((live: LiveRequest, error: unknown) => void) | null;
}

export class Receivers {
  /** By slot; undefined where nobody listens. */
  readonly bySlot: (LiveRequest | undefined)[] = [];
  count = 0;
  /** By row of the outbox: whom it is for. A receiver may submit while rows are handed out, and get the slot of a row to come. */
  readonly #rows: (LiveRequest | undefined)[] = [];
  /** Receivers that want every token. */
  listening = 0;
  /** Receivers whose tokens are seen as they come. */
  seen = 0;
  readonly #options: ReceiversOptions;
  #step = 0;
  #boundaryUs = 0;

  constructor(options: ReceiversOptions) {
    this.#options = options;
  }

  add(live: LiveRequest): void {
    this.bySlot[live.handle % SLOTS] = live;
    this.count++;
    if (!live.endsOnly) this.listening++;
    if (live.isSeen) this.seen++;
  }

  forget(live: LiveRequest): void {
    live.leave();
    const slot = live.handle % SLOTS;
    // The slot may have its next owner already.
    if (this.bySlot[slot] === live) this.bySlot[slot] = undefined;
    if (!live.endsOnly) this.listening--;
    if (live.isSeen) this.seen--;
    this.count--;
    this.#options.adapters.ended(live);
  }

  /** Hands the outbox out, of the step that ended at `boundaryUs`. */
  deliver(boundaryUs: number): void {
    const { batch, recorder, lanes, metered } = this.#options;
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
    let given = 0;
    let nextPart = recorder === null ? Number.POSITIVE_INFINITY : recorder.nextPart;
    for (let i = 0; i < rows; i++) {
      if (given >= nextPart) nextPart = recorder!.part();
      const row = i * OUT_WORDS;
      if (lanes?.leads(out[row]!)) {
        const next = lanes.write(out, tokens, i, Math.min(rows, i + Math.ceil(nextPart - given)));
        given += next - i;
        if (next > i) {
          i = next - 1;
          continue;
        }
      }
      given += out[row + 2]!;
      this.#handOver(this.#rows[i], row);
    }
    this.#release(rows);
  }

  /** Rows that are handed out keep nobody: the next step may have fewer, or never come. */
  #release(rows: number): void {
    this.#rows.fill(undefined, 0, rows);
  }

  /** Whose rows are they? What the core knows of those that are new is read before a submission changes it. */
  #look(rows: number): void {
    const { batch, adapters } = this.#options;
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

  /** Hands a row to its receiver. An error costs that receiver alone. */
  #handOver(live: LiveRequest | undefined, row: number): void {
    const { failed } = this.#options;
    try {
      this.#hand(live, row);
    } catch (error) {
      if (failed === null || live === undefined) throw error;
      failed(live, error);
    }
  }

  /** Runs `call`, which calls the receiver of `live`; an error costs that receiver alone. */
  guarded(live: LiveRequest, call: () => void): void {
    const { failed } = this.#options;
    try {
      call();
    } catch (error) {
      if (failed === null) throw error;
      failed(live, error);
    }
  }

  #hand(live: LiveRequest | undefined, row: number): void {
    const { batch, recorder } = this.#options;
    const { out, tokens } = batch.core.views;
    const at = out[row + 1]!;
    const count = out[row + 2]!;
    const flags = out[row + 3]!;
    const reason = (flags & OUT_REASON) - 1;
    // A receiver earlier in this step may have ended this one.
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

  /** Hands out ends alone, where nobody wants more: no other row of the outbox is looked at. */
  #deliverEnds(): void {
    const { views } = this.#options.batch.core;
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

  /** The last call of a receiver: its generation ended with that row of the outbox. */
  #tell(live: LiveRequest, row: number): void {
    const { batch, clock } = this.#options;
    const { out, tokens } = batch.core.views;
    const [at, count, flags] = [out[row + 1]!, out[row + 2]!, out[row + 3]!];
    const finish = FINISHES[(flags & OUT_REASON) - 1]!;
    const stopId = flags & OUT_STOP_ID ? tokens[at + count - 1]! : NONE;
    const { meter } = live;
    if (meter === null) {
      live.receiver.onTokens(tokens, at, count, finish, stopId);
      return;
    }
    // Before the receiver: it may submit, and so give the slot to another.
    const outputs = batch.outputsOf(live.handle);
    const handedUs = clock.now();
    live.receiver.onTokens(tokens, at, count, finish, stopId);
    live.passed(finish, outputs, this.#boundaryUs, handedUs, clock.now());
  }
}
