/**
 * Puts the batches of a publisher in order, and judges their sequences. Batches after a gap are held back until the missing ones
 * arrive, a replay has brought them, or too many are held.
 */
import { fingerprint } from "./fingerprint.ts";
import type { Tally } from "./tally.ts";

/** A batch that was received. */
export interface NumberedBatch {
  readonly sequence: number;
  readonly payload: Uint8Array;
  /** Time of arrival in seconds since 1970. null: it comes from a replay. */
  readonly atS: number | null;
}

export interface OrderedBatchReceiver {
  /** Receives a batch in its place. */
  apply(batch: NumberedBatch): void;
  /** Called when batches are missing for good, so that stored blocks are uncertain. */
  forget(why: string): void;
  /** Called when a new process publishes, whose cache is empty. */
  restarted(): void;
  /** Asks for a replay. null: there is no replay. */
  readonly requestReplay: ((start: number) => void) | null;
}

/** Batches that are held back, with and without a replay, until the missing ones count as lost. */
const HELD_MOST = 16;
const HELD_BEFORE_REPLAY = 4;
/** Batches and bytes that are held back while a replay arrives. */
const REPLAYING_MOST = 20_000;
const REPLAYING_BYTES_MOST = 64 * 2 ** 20;
/** Batches whose fingerprints are kept to recognize a repeated one. */
const RECENT = 1024;
/** Gaps that are kept to recognize a batch that arrives very late. */
const GAPS_MOST = 256;
/** Batches in a row with other sequences that prove a restart. */
const RESTART_PROOF = 3;

/** Batches with sequences of their own, which come from a new process or from a second publisher. */
interface RivalStream {
  next: number;
  count: number;
  /** Batches of the first publisher since the rival began. */
  others: number;
  /** Batches to apply if the rival is a new process. */
  readonly pending: NumberedBatch[];
  /** False if only a second publisher continues these sequences. */
  readonly mayBeRestart: boolean;
}

interface Replay {
  /** Sequence of the first batch that need not be replayed. */
  readonly until: number;
  /** Sequence of the replay's last batch. null: none arrived. */
  last: number | null;
}

export class BatchOrder {
  /** Restarts of the publisher, whether legal or not. */
  restarts = 0;
  /** Expected sequence. null: nothing arrived. */
  #next: number | null = null;
  /** Batches that wait for earlier ones, by sequence, in the order of arrival. */
  readonly #held = new Map<number, NumberedBatch>();
  #heldBytes = 0;
  #heldLast = 0;
  /** Batches that were applied while others were held. */
  #appliedSince = 0;
  /** Fingerprints of the last batches by sequence. */
  readonly #recent = new Map<number, number>();
  #gaps: { readonly from: number; readonly to: number }[] = [];
  #rival: RivalStream | null = null;
  #replay: Replay | null = null;
  /** True until the first batch of a connection. */
  #isNewConnection = true;
  #isFirstConnection = true;
  /** True if the missing batches are those before we joined, so that nobody is to blame. */
  #isJoinGap = false;
  readonly #tally: Tally;
  readonly #receiver: OrderedBatchReceiver;
  /** True if the caller knows that the publisher began after the subscription. */
  readonly #isFromStart: boolean;

  constructor(tally: Tally, receiver: OrderedBatchReceiver, isFromStart: boolean) {
    this.#tally = tally;
    this.#receiver = receiver;
    this.#isFromStart = isFromStart;
  }

  /** Says that the next batch comes over a new connection. Batches may be missing then, and sequences may start again. */
  reconnected(): void {
    this.#isNewConnection = true;
  }

  /** Takes a batch that was published. */
  take(batch: NumberedBatch): void {
    const isNewConnection = this.#isNewConnection;
    this.#isNewConnection = false;
    for (const id of ["K04", "K05", "K06", "K07", "K08"] as const) this.#tally.judge(id, true, String);
    if (this.#next === null || isNewConnection) this.#rejoin(batch);
    else if (batch.sequence === this.#rival?.next && batch.sequence !== this.#next) this.#continueRival(batch);
    else if (batch.sequence < this.#next) this.#behind(batch);
    else if (batch.sequence > this.#next || this.#replay !== null) this.#ahead(batch);
    else this.#inPlace(batch);
  }

  /** Takes a batch of a replay. */
  takeReplayed(batch: NumberedBatch): void {
    const replay = this.#replay;
    if (replay === null || this.#next === null) return;
    const { sequence } = batch;
    const { last } = replay;
    const isNext = last === null || sequence === last + 1;
    this.#tally.judge("K11", isNext, () => `replayed batch ${sequence} came after replayed batch ${last}`);
    replay.last = sequence;
    if (sequence < this.#next || sequence >= replay.until) return;
    if (sequence > this.#next) this.#unfilled(sequence);
    this.#advance(batch);
  }

  /** Ends a replay. `why`: the reason if it has no end marker, else null. */
  replayEnded(why: string | null): void {
    if (this.#replay === null) return;
    this.#tally.judge("K11", why === null, () => why!);
    this.#endReplay(why === null);
  }

  /** Ends a replay that cannot be judged. */
  replayAbandoned(why: string): void {
    if (this.#replay === null) return;
    this.#tally.unjudged("K11", why);
    this.#endReplay(false);
  }

  /** Stops waiting for missing batches. Call it when nothing more arrives for a while. */
  expire(): void {
    this.#settleRival();
    if (this.#replay === null && this.#held.size > 0) this.#giveUp();
  }

  /** Decides about all batches that wait. Call it at the end. */
  settle(): void {
    this.replayAbandoned("the replay had not ended when the check ended");
    this.#settleRival();
    while (this.#held.size > 0) this.#skip();
  }

  /**
   * Begins anew, because the connection has ended. The sequences cannot tell whether the same process publishes: a new one may
   * just have reached the expected sequence.
   */
  #rejoin(batch: NumberedBatch): void {
    if (this.#replay !== null) this.#endReplay(false);
    this.#settleRival();
    if (this.#next !== null) {
      this.#isFirstConnection = false;
      if (batch.sequence < this.#next) this.restarts++;
      this.#reset();
    }
    this.#join(batch);
  }

  #join(batch: NumberedBatch): void {
    const { sequence } = batch;
    const hasReplay = this.#receiver.requestReplay !== null;
    this.#next = hasReplay ? 0 : sequence;
    this.#isJoinGap = hasReplay;
    this.#hold(batch);
    if (hasReplay) this.#request();
    else {
      if (sequence > 0) this.#missedStart(sequence);
      else this.#tally.judge("K09", true, String);
      this.#drain();
    }
  }

  /** Says that batches before this sequence were published before we joined. */
  #missedStart(sequence: number): void {
    const sentence = `the first batch has sequence ${sequence}`;
    if (this.#isFromStart && this.#isFirstConnection) this.#tally.broken("K09", sentence);
    else this.#tally.note("K09", sentence, "A subscriber that joins later misses earlier batches.");
    this.#receiver.forget("joined in mid-sequence");
  }

  #inPlace(batch: NumberedBatch): void {
    if (this.#held.has(batch.sequence + 1))
      this.#tally.broken("K06", `batch ${batch.sequence} came after batch ${batch.sequence + 1}`);
    if (this.#rival !== null) this.#rival.others++;
    this.#advance(batch);
    this.#drain();
  }

  /** Takes a batch that is later than the expected one, or that comes during a replay. */
  #ahead(batch: NumberedBatch): void {
    const { sequence } = batch;
    const twin = this.#held.get(sequence);
    if (twin !== undefined) {
      if (fingerprint(twin.payload) === fingerprint(batch.payload))
        this.#tally.broken("K05", `batch ${sequence} came twice`);
      else this.#tally.broken("K08", `two different batches ${sequence} came`);
      return;
    }
    const isFirst = this.#held.size === 0;
    if (this.#replay === null && this.#appliedSince > 0 && this.#isFar() && sequence === this.#heldLast + 1) {
      this.#secondPublisher(batch);
      return;
    }
    if (!isFirst && sequence < this.#heldLast)
      this.#tally.broken("K06", `batch ${sequence} came after batch ${this.#heldLast}`);
    this.#hold(batch);
    if (isFirst) this.#isJoinGap = false;
    const most = this.#receiver.requestReplay === null ? HELD_MOST : HELD_BEFORE_REPLAY;
    if (this.#replay === null && this.#held.size > most) this.#giveUp();
    else if (this.#held.size > REPLAYING_MOST || this.#heldBytes > REPLAYING_BYTES_MOST)
      this.replayEnded(`the replay had not ended after ${this.#held.size} more batches`);
  }

  /** Reports whether the held batches are too far ahead to be early ones. */
  #isFar(): boolean {
    return this.#held.size > 0 && this.#lowest() - this.#next! > HELD_MOST + this.#held.size;
  }

  /** Takes a batch with the sequence of an earlier one. */
  #behind(batch: NumberedBatch): void {
    const { sequence } = batch;
    if (this.#recent.get(sequence) === fingerprint(batch.payload)) {
      this.#tally.broken("K05", `batch ${sequence} came twice`);
      return;
    }
    if (this.#gaps.some(({ from, to }) => sequence >= from && sequence < to)) {
      this.#fillGap(sequence);
      this.#tally.broken("K06", `batch ${sequence} came after batch ${this.#next! - 1}`);
      return;
    }
    this.#settleRival();
    this.#rival = { next: sequence + 1, count: 1, others: 0, pending: [batch], mayBeRestart: true };
  }

  #continueRival(batch: NumberedBatch): void {
    const rival = this.#rival!;
    rival.next = batch.sequence + 1;
    if (rival.others > 0) this.#secondPublisher(batch);
    else if (rival.mayBeRestart) {
      rival.count++;
      rival.pending.push(batch);
      if (rival.count >= RESTART_PROOF) this.#proveRestart(rival);
    }
  }

  /** Reports two publishers. Batches of the second one are not applied. */
  #secondPublisher({ sequence }: NumberedBatch): void {
    this.#tally.broken("K08", `two rows of sequences take turns: one is at ${this.#next! - 1}, one at ${sequence}`);
    if (this.#replay === null && this.#isFar()) {
      this.#held.clear();
      this.#heldBytes = 0;
    }
    this.#rival = { next: sequence + 1, count: 0, others: 0, pending: [], mayBeRestart: false };
  }

  #settleRival(): void {
    const rival = this.#rival;
    if (rival === null || !rival.mayBeRestart) return;
    this.#rival = null;
    if (rival.others === 0) this.#proveRestart(rival);
    else this.#tally.broken("K06", `batch ${rival.next - 1} came after batch ${this.#next! - 1 - rival.others}`);
  }

  #proveRestart({ pending }: RivalStream): void {
    const former = this.#next!;
    this.#tally.broken("K07", `sequence ${pending[0]!.sequence} came after ${former - 1} on the same connection`);
    this.#restart(pending);
    this.#rival = { next: former, count: 0, others: 0, pending: [], mayBeRestart: false };
  }

  #restart(batches: readonly NumberedBatch[]): void {
    this.restarts++;
    this.#reset();
    const first = batches[0]!.sequence;
    if (first > 0) this.#receiver.forget("a new process had sent batches before");
    this.#next = first;
    for (const batch of batches) this.#advance(batch);
  }

  /** Forgets everything, and stored blocks too. */
  #reset(): void {
    this.#held.clear();
    this.#heldBytes = 0;
    this.#gaps = [];
    this.#recent.clear();
    this.#rival = null;
    this.#replay = null;
    this.#receiver.restarted();
  }

  #request(): void {
    this.#replay = { until: this.#lowest(), last: null };
    this.#receiver.requestReplay!(this.#next!);
  }

  #endReplay(isWhole: boolean): void {
    this.#replay = null;
    const first = this.#lowest();
    if (first > this.#next!) {
      if (isWhole) this.#unfilled(first);
      else this.#miss(first);
    } else if (this.#isJoinGap) this.#tally.judge("K09", true, String);
    this.#isJoinGap = false;
    this.#drain();
  }

  #hold(batch: NumberedBatch): void {
    if (this.#held.size === 0) this.#appliedSince = 0;
    this.#held.set(batch.sequence, batch);
    this.#heldLast = batch.sequence;
    this.#heldBytes += batch.payload.length;
  }

  #lowest(): number {
    let lowest = Number.POSITIVE_INFINITY;
    for (const sequence of this.#held.keys()) lowest = Math.min(lowest, sequence);
    return lowest;
  }

  /** Applies the expected batch. */
  #advance(batch: NumberedBatch): void {
    const { sequence } = batch;
    this.#next = sequence + 1;
    this.#appliedSince++;
    this.#recent.set(sequence, fingerprint(batch.payload));
    if (this.#recent.size > RECENT) this.#recent.delete(this.#recent.keys().next().value!);
    this.#receiver.apply(batch);
  }

  /** Applies held batches that are in place now. */
  #drain(): void {
    for (let batch = this.#held.get(this.#next!); batch !== undefined; batch = this.#held.get(this.#next!)) {
      this.#held.delete(batch.sequence);
      this.#heldBytes -= batch.payload.length;
      this.#advance(batch);
    }
    // A replay may have brought some of them.
    for (const [sequence, { payload }] of this.#held)
      if (sequence < this.#next! && this.#held.delete(sequence)) this.#heldBytes -= payload.length;
  }

  /** Stops waiting for the batches before the first held one. Asks for a replay if there is one. */
  #giveUp(): void {
    if (!this.#isJoinGap) this.#tally.broken("K04", `${range(this.#next!, this.#lowest())} did not arrive`);
    if (this.#receiver.requestReplay === null) this.#goOn(this.#lowest());
    else this.#request();
  }

  /** Leaves out the batches before the first held one, without asking for a replay. */
  #skip(): void {
    if (!this.#isJoinGap) this.#tally.broken("K04", `${range(this.#next!, this.#lowest())} did not arrive`);
    this.#goOn(this.#lowest());
  }

  #goOn(to: number): void {
    this.#miss(to);
    this.#drain();
  }

  /** Reports batches that no replay has. `to`: the first sequence after them. */
  #unfilled(to: number): void {
    if (!this.#isJoinGap) this.#tally.broken("K10", `the replay lacks ${range(this.#next!, to)}`);
    this.#miss(to);
  }

  /** Accepts that batches are missing for good. `to`: the first sequence after them. */
  #miss(to: number): void {
    if (this.#isJoinGap) this.#missedStart(to);
    else {
      this.#receiver.forget("batches were lost");
      this.#gaps.push({ from: this.#next!, to });
      if (this.#gaps.length > GAPS_MOST) this.#gaps.shift();
    }
    this.#isJoinGap = false;
    this.#next = to;
  }

  #fillGap(sequence: number): void {
    this.#gaps = this.#gaps.flatMap(({ from, to }) =>
      sequence < from || sequence >= to
        ? [{ from, to }]
        : [
            { from, to: sequence },
            { from: sequence + 1, to },
          ].filter((gap) => gap.from < gap.to),
    );
  }
}

const range = (from: number, to: number): string =>
  to - from === 1 ? `batch ${from}` : `batches ${from} to ${to - 1}`;
