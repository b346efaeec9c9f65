/**
 * Tells the time and runs callbacks at given times. The only file with timers; all other code is given a `Clock`.
 * Times are whole microseconds in doubles, from the clock's own start.
 */

import { ClosedByUsing } from "./disposal.ts";

/** Takes a wake-up back; harmless afterwards. */
export type Cancel = () => void;

/** Time, and who is woken when. */
export interface Clock {
  /** Microseconds since the clock's start. */
  now(): number;
  /** Calls `wake` once, not before `dueUs`; as punctually as the host allows. */
  at(dueUs: number, wake: () => void): Cancel;
  /**
   * As `at`, for what may come a fraction of a millisecond later: nothing spins for it, those that are due at about the same
   * time share a wake-up, and whoever waits by `at` goes first. Absent: `at` is all there is.
   */
  about?(dueUs: number, wake: () => void): Cancel;
  /** When the earliest pending `at` is due; Infinity when none is. */
  nextUs(): number;
  /**
   * For simulated time: nothing else happens before this time, so who is woken may go on by itself to any time before it,
   * and says so with `skip`. -Infinity: nowhere.
   */
  freeUntil?(): number;
  /** Simulated time is this now; see `freeUntil`. */
  skip?(us: number): void;
  /**
   * Wakes now, in real time, who should have been woken a while ago. For whoever does one piece of work after another in
   * a turn.
   */
  catchUp?(): void;
  /** Calls `run` in the next turn of the event loop: sockets are served in between. */
  turn(run: () => void): void;
  /** Calls `run` at the end of the current turn, before any other event. */
  soon(run: () => void): void;
  /** Nobody is woken any more. */
  close(): void;
}

/** Wakes the owner of the alarm shortly before a time, from another thread (clock-worker.ts). */
export interface Alarm {
  /** Ask for a call of `ring` shortly before `dueUs` (same scale as `now`). A later order replaces this one. */
  order(dueUs: number): void;
  close(): void;
}

/**
 * Makes an alarm. `died` is to be called once if the alarm's thread ends by itself, so that it does not ring any more; it
 * returns what follows, in words.
 */
export type MakeAlarm = (ring: () => void, died: () => string) => Alarm;

/** Read once: the getter costs as much as the time. */
const { timeOrigin } = performance;
let originMs = timeOrigin + performance.now();

/**
 * Time 0 becomes this moment, in milliseconds since 1970: in a process of a server that started earlier. Called before
 * anything looks at the time.
 */
export function countFrom(ms: number): void {
  originMs = ms;
}

/** Microseconds since this module was loaded, or since the moment that `countFrom` was given. */
export function wallUs(): number {
  return Math.round((epochMs() - originMs) * 1000);
}

/** Seconds of the Unix epoch, for `created` fields and log lines. */
export function epochSeconds(): number {
  return Date.now() / 1000;
}

/** Milliseconds since 1970, with fractions: the same in all threads. */
export function epochMs(): number {
  return timeOrigin + performance.now();
}

/** Calls `run` in the next turn of the event loop. For code that has no clock, because it is not of a server's engine. */
export function nextTurn(run: () => void): void {
  setImmediate(run);
}

/** The epoch time in microseconds of a time of the wall clock. */
export function epochUsOf(us: number): number {
  return originMs * 1000 + us;
}

/** Below this the wait spins through turns of the event loop: timers are a millisecond coarse, and early. */
const SPIN_US = 250;

/** The alarm is ordered so much behind who waits by `about`: it rings 0.2 ms before its time, and is heard 50 µs later. */
const BEHIND_US = 150;

/** Some of who waits by `about` have a turn of the event loop for so long. */
const ABOUT_US = 300;

/** Who is overdue by less is left to the end of the turn. */
const OVERDUE_US = 1000;

/** After so many alarm threads have died, the clock uses timers instead. */
export const ALARMS_MAX = 3;

/** The process decides what an error in a callback means (`uncaughtException`). */
function throwUncaught(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

interface Wait {
  readonly dueUs: number;
  /** null: taken back. */
  wake: (() => void) | null;
}

/** Timed callbacks, earliest first. Equal times run in the order added. */
class Waits {
  readonly #all: Wait[] = [];

  /** Returns a function that takes the callback back. */
  add(dueUs: number, wake: () => void): () => void {
    const all = this.#all;
    const wait: Wait = { dueUs, wake };
    let at = all.length;
    while (at > 0 && all[at - 1]!.dueUs > dueUs) at--;
    if (at === all.length) all.push(wait);
    else all.splice(at, 0, wait);
    return () => {
      wait.wake = null;
    };
  }

  /** When the first callback is due; Infinity if none waits. */
  get dueUs(): number {
    const all = this.#all;
    while (all.length > 0 && all[0]!.wake === null) all.shift();
    return all.length > 0 ? all[0]!.dueUs : Number.POSITIVE_INFINITY;
  }

  /** Calls the first callback, unless it was taken back. */
  wakeFirst(): void {
    this.#all.shift()?.wake?.();
  }

  clear(): void {
    this.#all.length = 0;
  }
}

/**
 * Real time. With an alarm thread a wait costs no spinning but its last 0.2 ms; without one the last millisecond spins.
 * Several waits may be pending; the earliest is armed. An error in one callback does not keep the others waiting.
 */
export class WallClock extends ClosedByUsing implements Clock {
  readonly #pending = new Waits();
  readonly #about = new Waits();
  readonly #failed: (error: unknown) => void;
  #makeAlarm: MakeAlarm | undefined;
  #alarm: Alarm | undefined;
  #alarmDeaths = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #armedUs = Number.POSITIVE_INFINITY;
  #spinning = false;
  #waking = false;
  #closed = false;

  /** `failed` gets what callbacks throw; without it, that is thrown as an uncaught error of the process. */
  constructor(makeAlarm?: MakeAlarm, failed: (error: unknown) => void = throwUncaught) {
    super();
    this.#makeAlarm = makeAlarm;
    this.#failed = failed;
  }

  now(): number {
    return wallUs();
  }

  at(dueUs: number, wake: () => void): Cancel {
    const cancel = this.#pending.add(dueUs, wake);
    this.#arm();
    return cancel;
  }

  about(dueUs: number, wake: () => void): Cancel {
    const cancel = this.#about.add(dueUs, wake);
    this.#arm();
    return cancel;
  }

  nextUs(): number {
    return this.#pending.dueUs;
  }

  catchUp(): void {
    if (this.#waking || wallUs() - this.#pending.dueUs < OVERDUE_US) return;
    this.#wakeFirst();
  }

  turn(run: () => void): void {
    setImmediate(this.#attempt, run);
  }

  soon(run: () => void): void {
    queueMicrotask(() => this.#attempt(run));
  }

  close(): void {
    this.#closed = true;
    this.#pending.clear();
    this.#about.clear();
    clearTimeout(this.#timer);
    this.#alarm?.close();
    this.#alarm = undefined;
  }

  #arm(): void {
    if (this.#closed || this.#spinning) return;
    const dueUs = this.#nextUs();
    const leftUs = dueUs - wallUs();
    if (leftUs <= SPIN_US) {
      this.#spinning = true;
      setImmediate(this.#spin);
      return;
    }
    if (dueUs >= this.#armedUs) return;
    this.#armedUs = dueUs;
    if (this.#makeAlarm && leftUs < 1_000_000) {
      try {
        this.#alarm ??= this.#makeAlarm(this.#ring, this.#alarmDied);
        this.#alarm.order(dueUs);
      } catch (error) {
        this.#failed(error);
        this.#alarm?.close();
        this.#alarmDied();
      }
    } else {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(this.#ring, Math.max(0, Math.floor(leftUs / 1000) - 1));
    }
  }

  /** From shortly before when the loop is wanted: later for who waits by `about`, who is not spun for. */
  #nextUs(): number {
    const laterUs = this.#makeAlarm ? BEHIND_US : 0;
    return Math.min(this.#pending.dueUs, this.#about.dueUs + laterUs);
  }

  #wakeFirst(): void {
    this.#waking = true;
    this.#wake(this.#pending);
    this.#waking = false;
  }

  #wake(waits: Waits): void {
    try {
      waits.wakeFirst();
    } catch (error) {
      this.#failed(error);
    }
  }

  #wakeAbout(nowUs: number): void {
    const untilUs = Math.min(nowUs + ABOUT_US, this.#pending.dueUs);
    for (let us = nowUs; us < untilUs && this.#about.dueUs <= us; us = wallUs()) this.#wake(this.#about);
  }

  readonly #attempt = (run: () => void): void => {
    try {
      run();
    } catch (error) {
      this.#failed(error);
    }
  };

  /** Whatever the thread was asked for is asked for again, of a new thread or of a timer. */
  readonly #alarmDied = (): string => {
    this.#alarm = undefined;
    this.#alarmDeaths++;
    if (this.#alarmDeaths === ALARMS_MAX) this.#makeAlarm = undefined;
    this.#armedUs = Number.POSITIVE_INFINITY;
    this.#arm();
    return this.#makeAlarm ? "it is started again" : "timers take its place";
  };

  readonly #ring = (): void => {
    this.#armedUs = Number.POSITIVE_INFINITY;
    this.#arm();
  };

  readonly #spin = (): void => {
    if (!this.#closed) {
      const nowUs = wallUs();
      if (nowUs >= this.#pending.dueUs) this.#wakeFirst();
      else if (nowUs >= this.#about.dueUs) this.#wakeAbout(nowUs);
      if (this.#nextUs() - wallUs() <= SPIN_US) {
        setImmediate(this.#spin);
        return;
      }
    }
    this.#spinning = false;
    this.#arm();
  };
}

/** A clock that ends before the clock that it is part of. After its end it calls none of its callbacks. */
export class LeasedClock implements Clock {
  readonly #whole: Clock;
  #open = true;

  constructor(whole: Clock) {
    this.#whole = whole;
  }

  now(): number {
    return this.#whole.now();
  }

  at(dueUs: number, wake: () => void): Cancel {
    return this.#whole.at(dueUs, this.#whileOpen(wake));
  }

  about(dueUs: number, wake: () => void): Cancel {
    const act = this.#whileOpen(wake);
    return this.#whole.about?.(dueUs, act) ?? this.#whole.at(dueUs, act);
  }

  nextUs(): number {
    return this.#whole.nextUs();
  }

  catchUp(): void {
    this.#whole.catchUp?.();
  }

  turn(run: () => void): void {
    this.#whole.turn(this.#whileOpen(run));
  }

  soon(run: () => void): void {
    this.#whole.soon(this.#whileOpen(run));
  }

  close(): void {
    this.#open = false;
  }

  #whileOpen(act: () => void): () => void {
    return () => {
      if (this.#open) act();
    };
  }
}
