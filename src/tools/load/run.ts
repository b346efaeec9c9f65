/**
 * What is sent when? A closed loop (as many at once as allowed), an open one (at intended times), or a dataset's own
 * times; later turns of conversations when their users have thought. Ends by count, duration, the dataset's end, or from
 * outside.
 */
import type { Cancel, Clock } from "../../base/clock.ts";
import { type Random, seeded } from "../../base/random.ts";
import type { Disturbance, LoadClient, Prepared } from "./clients/client.ts";
import { ChunkKeeper } from "./many-gaps.ts";
import type { RequestRecord } from "./requests/types.ts";
import type { Next, Turns } from "./turns.ts";

export type LoadLoop =
  | { readonly kind: "closed" }
  /** Microseconds from the phase's start. */
  | { readonly kind: "open"; readonly arrivals: Iterator<number> }
  | { readonly kind: "schedule"; readonly speedup: number };

export interface Phase {
  readonly turns: Turns;
  /** Beginning of request ids. */
  readonly prefix: string;
  readonly loop: LoadLoop;
  /** Most requests at once; Infinity: no limit. */
  readonly concurrency: number;
  /** Requests to send, microseconds for which; Infinity: not limited. */
  readonly count: number;
  readonly durationUs: number;
  /** What requests under way get beyond the duration. */
  readonly graceUs: number;
}

export interface RunOptions {
  readonly clock: Clock;
  readonly client: Omit<LoadClient, "asksLength" | "outputs" | "connections" | "close">;
  readonly seed: number;
  /** Shares of requests, 0 to 1. */
  readonly cancelShare: number;
  readonly cancelAfterUs: number;
  readonly slowShare: number;
  readonly slowPauseUs: number;
}

export interface PhaseOutcome {
  readonly records: RequestRecord[];
  /** On the clock. Records count from the start. */
  readonly startUs: number;
  readonly endUs: number;
  readonly interrupted: boolean;
}

/** Bodies made before their time; where there are fewer than the least, the next one is not put off. */
const PREPARED_MOST = 32;
const PREPARED_LEAST = 2;

/** A later turn of a conversation. */
interface Later {
  readonly next: Next;
  readonly dueUs: number;
}

export class LoadRun {
  readonly #options: RunOptions;
  readonly #random: Random;
  /** Turns that stand alone, with their bodies. */
  readonly #ahead: { readonly next: Next; readonly prepared: Prepared }[] = [];
  #turns!: Turns;
  #count = 0;
  /** What the dataset threw while nobody waited for it: whoever takes the next turn gets it. */
  #failure: unknown = null;
  #stop: ((why: string) => void) | null = null;
  /** Counts of the phase under way. */
  sent = 0;
  running = 0;
  failed = 0;
  records: RequestRecord[] = [];
  keeper = new ChunkKeeper();
  startUs = 0;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#random = seeded(options.seed ^ 0x0ddba11);
  }

  /** Ends the phase under way: what is not answered yet is cut. */
  stop(why: string): void {
    this.#stop?.(why);
  }

  /** Throws what the dataset throws. */
  phase(phase: Phase): Promise<PhaseOutcome> {
    const { clock, client } = this.#options;
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
      const pacing = new Pacing(this, phase, this.#options, (outcome) => {
        this.#stop = null;
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      });
      this.#stop = (why) => pacing.interrupt(why);
      pacing.step();
    });
  }

  /** Makes one more body ahead, if that is possible. */
  #prepare(): boolean {
    const { client } = this.#options;
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

  /** What was made ahead; undefined: nothing. Throws what the dataset threw behind it. */
  #first(): Next | undefined {
    const next = this.#ahead[0]?.next;
    if (next === undefined && this.#failure !== null) throw this.#failure;
    return next;
  }

  /** The dataset's own time of what `take` gives next; null: there is nothing more. */
  nextArrivalUs(): number | null {
    const turn = this.#first()?.turn ?? this.#turns.peek();
    return turn === null ? null : (turn.arrivalUs ?? 0);
  }

  /** The next turn whose conversation is free; null: there is nothing more. */
  take(): Next | "held" | "full" | null {
    return this.#first() ?? this.#turns.next();
  }

  /** Sends the request's first byte as soon as there is a connection. `ended` gets the next turn of its conversation. */
  send(next: Next, intendedUs: number, phase: Phase, ended: (endUs: number, following: Next | null) => void): void {
    const { client, clock } = this.#options;
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
    const { cancelShare, cancelAfterUs, slowShare, slowPauseUs } = this.#options;
    if (cancelShare === 0 && slowShare === 0) return null;
    const drawn = this.#random() / 2 ** 32;
    if (drawn < cancelShare) return { kind: "cancelled", afterUs: cancelAfterUs };
    return drawn < cancelShare + slowShare ? { kind: "slow reader", pauseUs: slowPauseUs } : null;
  }
}

/** One phase of a run: decides, again after each event, what may be sent now and when to look again. */
class Pacing {
  readonly #run: LoadRun;
  readonly #phase: Phase;
  readonly #options: RunOptions;
  readonly #done: (outcome: PhaseOutcome | Error) => void;
  readonly #startUs: number;
  /** Since when the free slots of a closed loop are free, oldest first. */
  readonly #freeUs: number[] = [];
  /** By due time. */
  readonly #later: Later[] = [];
  #arrivalUs: number | null = null;
  #exhausted = false;
  #wake: Cancel | null = null;
  #wakeUs = Number.POSITIVE_INFINITY;
  #end: Cancel | null = null;
  #interrupted = false;
  #over = false;
  #stepping = false;

  constructor(run: LoadRun, phase: Phase, options: RunOptions, done: (outcome: PhaseOutcome | Error) => void) {
    this.#run = run;
    this.#phase = phase;
    this.#options = options;
    this.#done = done;
    this.#startUs = run.startUs;
    if (phase.loop.kind === "closed") this.#freeUs = Array(phase.concurrency).fill(run.startUs);
    if (Number.isFinite(phase.durationUs)) {
      const endUs = run.startUs + phase.durationUs + phase.graceUs;
      this.#end = options.clock.at(endUs, () => options.client.cutAll("the run's duration and grace period were over"));
    }
  }

  interrupt(why: string): void {
    this.#interrupted = true;
    this.#options.client.cutAll(why);
    this.step();
  }

  step(): void {
    // What is sent may fail at once and come back here.
    if (this.#stepping || this.#over) return;
    this.#stepping = true;
    try {
      this.#send();
    } catch (failure) {
      this.#over = true;
      this.#options.client.cutAll("the dataset could not be read");
      this.#done(failure as Error);
      return;
    } finally {
      this.#stepping = false;
    }
    if (this.#run.running === 0 && this.#finished(this.#options.clock.now())) this.#finish();
  }

  #send(): void {
    const { clock } = this.#options;
    for (;;) {
      const nowUs = clock.now();
      if (this.#finished(nowUs)) return;
      if (this.#run.running >= this.#phase.concurrency) return;
      const dueUs = Math.min(this.#later[0]?.dueUs ?? Number.POSITIVE_INFINITY, this.#nextUs());
      if (dueUs > nowUs) {
        this.#wakeAt(Math.min(dueUs, this.#startUs + this.#phase.durationUs));
        return;
      }
      if (this.#later.length > 0 && this.#later[0]!.dueUs <= dueUs) this.#start(this.#later.shift()!);
      else if (!this.#fresh(dueUs)) {
        const later = this.#later[0];
        if (later === undefined) return;
        if (later.dueUs > nowUs) {
          this.#wakeAt(later.dueUs);
          return;
        }
        this.#start(this.#later.shift()!);
      }
    }
  }

  /** Nothing new is sent any more. */
  #finished(nowUs: number): boolean {
    if (this.#interrupted || this.#run.sent >= this.#phase.count) return true;
    if (nowUs - this.#startUs >= this.#phase.durationUs) return true;
    return this.#exhausted && this.#later.length === 0 && this.#run.running === 0;
  }

  /** When the next turn that stands alone, or begins a conversation, is to be sent; Infinity: never. */
  #nextUs(): number {
    if (this.#exhausted) return Number.POSITIVE_INFINITY;
    const { loop } = this.#phase;
    if (loop.kind === "closed") return this.#freeUs[0] ?? Number.POSITIVE_INFINITY;
    if (loop.kind === "open") {
      if (this.#arrivalUs === null) {
        const { value, done } = loop.arrivals.next();
        if (done) this.#exhausted = true;
        else this.#arrivalUs = value;
      }
      return this.#arrivalUs === null ? Number.POSITIVE_INFINITY : this.#startUs + this.#arrivalUs;
    }
    const arrivalUs = this.#run.nextArrivalUs();
    if (arrivalUs === null) this.#exhausted = true;
    return arrivalUs === null ? Number.POSITIVE_INFINITY : this.#startUs + Math.round(arrivalUs / loop.speedup);
  }

  /** False: conversations have been read so far ahead that an answer must come first. */
  #fresh(dueUs: number): boolean {
    const next = this.#run.take();
    if (next === "full") return false;
    if (next === "held") return true;
    if (next === null) {
      this.#exhausted = true;
      return true;
    }
    // A later turn takes no arrival: it comes by itself. With times of its own it comes at the later of both.
    if (next.readyUs > Number.NEGATIVE_INFINITY) {
      const ownUs = this.#phase.loop.kind === "schedule" ? dueUs : this.#options.clock.now();
      this.#wait({ next, dueUs: Math.max(next.readyUs, ownUs) });
      return true;
    }
    this.#arrivalUs = null;
    this.#start({ next, dueUs });
    return true;
  }

  #wait(later: Later): void {
    let at = this.#later.length;
    while (at > 0 && this.#later[at - 1]!.dueUs > later.dueUs) at--;
    this.#later.splice(at, 0, later);
  }

  #start({ next, dueUs }: Later): void {
    const { loop } = this.#phase;
    const freeUs = loop.kind === "closed" ? this.#freeUs.shift()! : dueUs;
    this.#run.send(next, Math.max(dueUs, freeUs), this.#phase, (endUs, following) => {
      if (loop.kind === "closed") this.#freeUs.push(endUs);
      if (following !== null) this.#wait({ next: following, dueUs: this.#dueOf(following) });
      this.step();
    });
  }

  #dueOf({ turn, readyUs }: Next): number {
    const { loop } = this.#phase;
    if (loop.kind !== "schedule" || turn.arrivalUs === null) return readyUs;
    return Math.max(readyUs, this.#startUs + Math.round(turn.arrivalUs / loop.speedup));
  }

  #wakeAt(us: number): void {
    if (us === this.#wakeUs || us === Number.POSITIVE_INFINITY) return;
    this.#wake?.();
    this.#wakeUs = us;
    this.#wake = this.#options.clock.at(us, () => {
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
    const endUs = this.#options.clock.now();
    this.#done({
      records: this.#run.records.sort((a, b) => a.index - b.index),
      startUs: this.#startUs,
      endUs,
      interrupted: this.#interrupted,
    });
  }
}
