/**
 * Decides when each request is sent: in a closed loop (as many at once as allowed), an open loop (at intended times), or at
 * the dataset's own times. Later turns of conversations are sent after the think time. A run ends by count, duration, the end
 * of the dataset, or `stop`.
 */

import type { Cancel, Clock } from "../../base/clock.ts";
import { type Random, seeded } from "../../base/random.ts";
import type { Disturbance, LoadClient, PreparedBody } from "./clients/client.ts";
import { ChunkKeeper } from "./many-gaps.ts";
import type { RequestRecord } from "./requests/types.ts";
import type { Settings } from "./settings.ts";
import type { NextTurn, Turns } from "./turns.ts";

export type LoadLoop =
  | { readonly kind: "closed" }
  /** `arrivals`: intended times in microseconds from the phase's start. */
  | { readonly kind: "open"; readonly arrivals: Iterator<number> }
  | { readonly kind: "schedule"; readonly speedup: number };

export interface Phase {
  readonly turns: Turns;
  /** Beginning of the request ids. */
  readonly prefix: string;
  readonly loop: LoadLoop;
  /** Maximum number of requests in progress. Infinity for no limit. */
  readonly concurrency: number;
  /** Number of requests to send, and the time limit in microseconds. Infinity for no limit. */
  readonly count: number;
  readonly durationUs: number;
  /** Microseconds that requests in progress may take after the duration. */
  readonly graceUs: number;
}

export interface RunOptions extends Pick<Settings, "seed" | "cancelShare" | "slowShare"> {
  readonly clock: Clock;
  readonly client: Omit<LoadClient, "asksLength" | "outputs" | "connections" | "close">;
  readonly cancelAfterUs: number;
  readonly slowPauseUs: number;
}

export interface PhaseOutcome {
  readonly records: RequestRecord[];
  readonly interrupted: boolean;
}

/** Maximum number of bodies that are made ahead of time. If there are fewer than the minimum, the next one is made at once. */
const PREPARED_MOST = 32;
const PREPARED_LEAST = 2;

/** A later turn of a conversation, with the time at which it is due. */
interface DelayedTurn {
  readonly next: NextTurn;
  readonly dueUs: number;
}

export class LoadRun {
  readonly #random: Random;
  /** Single requests with their bodies, made ahead of time. */
  readonly #ahead: { readonly next: NextTurn; readonly prepared: PreparedBody }[] = [];
  #turns!: Turns;
  #count = 0;
  /** Error of the dataset while bodies were made ahead. Thrown when the next turn is taken. */
  #failure: unknown = null;
  #stop: ((why: string) => void) | null = null;
  /** Numbers of the current phase. */
  sent = 0;
  running = 0;
  failed = 0;
  /** Records in the order in which requests ended. */
  records: RequestRecord[] = [];
  keeper = new ChunkKeeper();
  startUs = 0;

  constructor(private readonly options: RunOptions) {
    this.#random = seeded(options.seed ^ 0x0ddba11);
  }

  /** Ends the current phase and cuts its requests in progress. */
  stop(why: string): void {
    this.#stop?.(why);
  }

  /** Runs a phase. Rejects with the error of the dataset if it cannot be read. */
  phase(phase: Phase): Promise<PhaseOutcome> {
    const { clock, client } = this.options;
    this.#turns = phase.turns;
    this.#ahead.length = 0;
    this.#failure = null;
    this.sent = 0;
    this.running = 0;
    this.failed = 0;
    this.records = [];
    this.keeper = new ChunkKeeper();
    this.#count = phase.count;
    while (this.#prepare());
    this.startUs = clock.now();
    client.countFrom(this.startUs);
    return new Promise((resolve, reject) => {
      const pacing = new Pacer(this, phase, this.options, (outcome) => {
        this.#stop = null;
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      });
      this.#stop = (why) => pacing.interrupt(why);
      pacing.step();
    });
  }

  /** Makes one more body ahead of time, if possible. Returns false if not. */
  #prepare(): boolean {
    const { client } = this.options;
    const turns = this.#turns;
    if (this.#ahead.length >= Math.min(PREPARED_MOST, this.#count - this.sent)) return false;
    if (turns.peek()?.conversation !== null) return false;
    const next = turns.next();
    if (next === null || typeof next === "string") return false;
    this.#ahead.push({ next, prepared: client.prepare(next.turn) });
    return true;
  }

  readonly #prepareMore = (): boolean => {
    try {
      return this.#stop !== null && this.#prepare();
    } catch (failure) {
      this.#failure = failure;
      return false;
    }
  };

  /** Returns the first turn that was made ahead, or undefined. Throws the dataset's error if it came after that turn. */
  #first(): NextTurn | undefined {
    const next = this.#ahead[0]?.next;
    if (next === undefined && this.#failure !== null) throw this.#failure;
    return next;
  }

  /** Returns the dataset's time of the next turn. Null if the dataset has ended. */
  nextArrivalUs(): number | null {
    const turn = this.#first()?.turn ?? this.#turns.peek();
    return turn === null ? null : (turn.arrivalUs ?? 0);
  }

  /** Returns the next turn that may be sent. Null if the dataset has ended. "held" and "full" are those of `Turns.next`. */
  take(): NextTurn | "held" | "full" | null {
    return this.#first() ?? this.#turns.next();
  }

  /** Sends a request. `ended` is called with its end time and the next turn of its conversation. */
  send(
    next: NextTurn,
    intendedUs: number,
    phase: Phase,
    ended: (endUs: number, following: NextTurn | null) => void,
  ): void {
    const { client, clock } = this.options;
    const { turns } = phase;
    const ahead = this.#ahead[0]?.next === next ? this.#ahead.shift()! : null;
    const isMulti = next.turn.conversation !== null;
    const index = this.sent++;
    this.running++;
    const more = Math.min(phase.count - this.sent, phase.concurrency - this.running);
    const order = {
      index,
      requestId: `${phase.prefix}${index}`,
      intendedUs,
      turn: next.turn,
      history: next.history,
      keepText: isMulti,
      disturb: this.#disturb(),
      prepared: ahead?.prepared ?? null,
      more: phase.loop.kind === "closed" ? 0 : more,
    };
    client.send(order, (record, text) => {
      this.running--;
      if (record.failure !== null && record.disturbed === null) this.failed++;
      this.records.push(this.keeper.keep(record));
      const endUs = clock.now();
      ended(endUs, isMulti ? turns.answered(next.turn, record.failure === null ? text : null, endUs) : null);
    });
    if (this.#ahead.length < PREPARED_LEAST) this.#prepare();
    client.whenQuiet(this.#prepareMore);
  }

  #disturb(): Disturbance | null {
    const { cancelShare, cancelAfterUs, slowShare, slowPauseUs } = this.options;
    if (cancelShare === 0 && slowShare === 0) return null;
    const draw = this.#random() / 2 ** 32;
    if (draw < cancelShare) return { kind: "cancelled", afterUs: cancelAfterUs };
    return draw < cancelShare + slowShare ? { kind: "slow reader", pauseUs: slowPauseUs } : null;
  }
}

/** Paces one phase of a run: after each event it decides what may be sent now, and when to check again. */
class Pacer {
  readonly #startUs: number;
  /** Times since which the free slots of a closed loop are free, oldest first. */
  readonly #freeUs: number[] = [];
  /** Later turns of conversations, sorted by due time. */
  readonly #delayed: DelayedTurn[] = [];
  #arrivalUs: number | null = null;
  #exhausted = false;
  #wake: Cancel | null = null;
  #wakeUs = Number.POSITIVE_INFINITY;
  #end: Cancel | null = null;
  #interrupted = false;
  #over = false;
  #stepping = false;

  constructor(
    private readonly run: LoadRun,
    private readonly phase: Phase,
    private readonly options: RunOptions,
    private readonly done: (outcome: PhaseOutcome | Error) => void,
  ) {
    this.#startUs = run.startUs;
    if (phase.loop.kind === "closed") this.#freeUs = Array(phase.concurrency).fill(run.startUs);
    if (Number.isFinite(phase.durationUs)) {
      const endUs = run.startUs + phase.durationUs + phase.graceUs;
      this.#end = options.clock.at(endUs, () => options.client.cutAll("the run's duration and grace period were over"));
    }
  }

  interrupt(why: string): void {
    this.#interrupted = true;
    this.options.client.cutAll(why);
    this.step();
  }

  step(): void {
    // A request may fail at once, which calls this function again.
    if (this.#stepping || this.#over) return;
    this.#stepping = true;
    try {
      this.#send();
    } catch (failure) {
      this.#over = true;
      this.options.client.cutAll("the dataset could not be read");
      this.done(failure as Error);
      return;
    } finally {
      this.#stepping = false;
    }
    if (this.run.running === 0 && this.#finished(this.options.clock.now())) this.#finish();
  }

  #send(): void {
    const { clock } = this.options;
    for (;;) {
      const nowUs = clock.now();
      if (this.#finished(nowUs)) return;
      if (this.run.running >= this.phase.concurrency) return;
      const dueUs = Math.min(this.#delayed[0]?.dueUs ?? Number.POSITIVE_INFINITY, this.#nextUs());
      if (dueUs > nowUs) {
        this.#wakeAt(Math.min(dueUs, this.#startUs + this.phase.durationUs));
        return;
      }
      if (this.#delayed.length > 0 && this.#delayed[0]!.dueUs <= dueUs) this.#start(this.#delayed.shift()!);
      else if (!this.#fresh(dueUs)) {
        const delayed = this.#delayed[0];
        if (delayed === undefined) return;
        if (delayed.dueUs > nowUs) {
          this.#wakeAt(delayed.dueUs);
          return;
        }
        this.#start(this.#delayed.shift()!);
      }
    }
  }

  /** True if nothing new will be sent. */
  #finished(nowUs: number): boolean {
    if (this.#interrupted || this.run.sent >= this.phase.count) return true;
    if (nowUs - this.#startUs >= this.phase.durationUs) return true;
    return this.#exhausted && this.#delayed.length === 0 && this.run.running === 0;
  }

  /** Returns the time at which the next single request or new conversation is due. Infinity if there is none. */
  #nextUs(): number {
    if (this.#exhausted) return Number.POSITIVE_INFINITY;
    const { loop } = this.phase;
    if (loop.kind === "closed") return this.#freeUs[0] ?? Number.POSITIVE_INFINITY;
    if (loop.kind === "open") {
      if (this.#arrivalUs === null) {
        const { value, done } = loop.arrivals.next();
        if (done) this.#exhausted = true;
        else this.#arrivalUs = value;
      }
      return this.#arrivalUs === null ? Number.POSITIVE_INFINITY : this.#startUs + this.#arrivalUs;
    }
    const arrivalUs = this.run.nextArrivalUs();
    if (arrivalUs === null) this.#exhausted = true;
    return arrivalUs === null ? Number.POSITIVE_INFINITY : this.#startUs + Math.round(arrivalUs / loop.speedup);
  }

  /** Sends the next new turn. Returns false if too many turns wait for answers of their conversations. */
  #fresh(dueUs: number): boolean {
    const next = this.run.take();
    if (next === "full") return false;
    if (next === "held") return true;
    if (next === null) {
      this.#exhausted = true;
      return true;
    }
    // A later turn does not use up an arrival. With times of its own, it is sent at the later of both times.
    if (next.readyUs > Number.NEGATIVE_INFINITY) {
      const ownTimeUs = this.phase.loop.kind === "schedule" ? dueUs : this.options.clock.now();
      this.#wait({ next, dueUs: Math.max(next.readyUs, ownTimeUs) });
      return true;
    }
    this.#arrivalUs = null;
    this.#start({ next, dueUs });
    return true;
  }

  #wait(delayed: DelayedTurn): void {
    let at = this.#delayed.length;
    while (at > 0 && this.#delayed[at - 1]!.dueUs > delayed.dueUs) at--;
    this.#delayed.splice(at, 0, delayed);
  }

  #start({ next, dueUs }: DelayedTurn): void {
    const { loop } = this.phase;
    const freeUs = loop.kind === "closed" ? this.#freeUs.shift()! : dueUs;
    this.run.send(next, Math.max(dueUs, freeUs), this.phase, (endUs, following) => {
      if (loop.kind === "closed") this.#freeUs.push(endUs);
      if (following !== null) this.#wait({ next: following, dueUs: this.#dueOf(following) });
      this.step();
    });
  }

  #dueOf({ turn, readyUs }: NextTurn): number {
    const { loop } = this.phase;
    if (loop.kind !== "schedule" || turn.arrivalUs === null) return readyUs;
    return Math.max(readyUs, this.#startUs + Math.round(turn.arrivalUs / loop.speedup));
  }

  #wakeAt(us: number): void {
    if (us === this.#wakeUs || us === Number.POSITIVE_INFINITY) return;
    this.#wake?.();
    this.#wakeUs = us;
    this.#wake = this.options.clock.at(us, () => {
      this.#wakeUs = Number.POSITIVE_INFINITY;
      this.#wake = null;
      this.step();
    });
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    this.#wake?.();
    this.#end?.();
    const records = this.run.records.sort((a, b) => a.index - b.index);
    this.done({ records, interrupted: this.#interrupted });
  }
}
