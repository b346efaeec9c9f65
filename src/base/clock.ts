/**
 * Tells the time and runs callbacks at given times. Timers are used only in this file; all other code receives a `Clock`. Times
 * are whole microseconds in doubles, from the clock's own start.
 */

import { ClosedByUsing } from "./disposal.ts";

/** Cancels a timed callback. Has no effect after the callback has run. */
export type Cancel = () => void;

/** Tells the time and calls callbacks at given times. */
export interface Clock {
  /** Microseconds since the clock's start. */
  now(): number;
  /** Calls `wake` once, at or after `dueUs`, as punctually as the host allows. Returns a function that cancels the call. */
  at(dueUs: number, wake: () => void): Cancel;
  /**
   * Calls `wake` like `at`, but possibly a fraction of a millisecond late. The clock does not spin for this callback. Callbacks
   * that are due at about the same time share a wake-up, and callbacks of `at` run first. Absent if the clock has only `at`.
   */
  about?(dueUs: number, wake: () => void): Cancel;
  /** Returns the due time of the earliest callback that waits, in microseconds of this clock; Infinity if none waits. */
  nextUs(): number;
  /**
   * Returns a time before which no callback is due. Only simulated clocks have this method. The running callback may advance
   * the clock up to the returned time with `skip`. -Infinity: it must not advance the clock.
   */
  freeUntil?(): number;
  /** Sets the time of a simulated clock to `us`; see `freeUntil`. */
  skip?(us: number): void;
  /**
   * Runs the first callback now if it is overdue by more than a millisecond. For code that does much work in one turn of the
   * event loop.
   */
  catchUp?(): void;
  /**
   * Calls `run` in the next turn of the event loop, after sockets have been served. `isDue`: true if `run` should have run
   * already. Then `nextUs` returns no time after the present until `run` has run, so that long work waits for `run`.
   */
  turn(run: () => void, isDue?: boolean): void;
  /** Calls `run` at the end of the current turn, before any other event. */
  soon(run: () => void): void;
  /** Drops all pending callbacks. */
  close(): void;
}

/** Calls back shortly before an ordered time, from another thread (clock-worker.ts). */
export interface Alarm {
  /**
   * Requests a call of `ring` shortly before `dueUs`, in microseconds as `Clock.now` returns them. A later order replaces an
   * earlier one.
   */
  order(dueUs: number): void;
  close(): void;
}

/**
 * Makes an alarm. If the thread of the alarm ends unexpectedly, the alarm calls `died` once and never rings again. `died`
 * returns a text about the consequence, for the log.
 */
export type MakeAlarm = (ring: () => void, died: () => string) => Alarm;

/** The time origin is read once, because its getter is as slow as reading the time. */
const { timeOrigin } = performance;
let originMs = timeOrigin + performance.now();

/**
 * Sets time 0 of the wall clock to `ms`, in milliseconds since 1970. A worker process passes the start of its server, before
 * any code reads the time.
 */
export function countFrom(ms: number): void {
  originMs = ms;
}

/** Returns microseconds since this module was loaded, or since the moment of `countFrom`. */
export function wallUs(): number {
  return Math.round((epochMs() - originMs) * 1000);
}

/** Returns seconds since 1970, for `created` fields and log lines. */
export function epochSeconds(): number {
  return Date.now() / 1000;
}

/** Returns milliseconds since 1970, with fractions. All threads have the same time. */
export function epochMs(): number {
  return timeOrigin + performance.now();
}

/** Calls `run` in the next turn of the event loop. For code outside of an engine, which has no `Clock`. */
export function nextTurn(run: () => void): void {
  setImmediate(run);
}

/** Calls `run` in every turn of the event loop from now on, which keeps a core busy but not the process alive. */
export function everyTurn(run: () => void): void {
  const turn = (): void => {
    run();
    setImmediate(turn).unref();
  };
  setImmediate(turn).unref();
}

/** Converts a time of the wall clock to microseconds since 1970. */
export function epochUsOf(us: number): number {
  return originMs * 1000 + us;
}

/**
 * Waits of at most this many microseconds spin through turns of the event loop, because timers have a resolution of a
 * millisecond.
 */
const SPIN_US = 250;

/**
 * Microseconds by which the alarm is set later for callbacks of `about`. The alarm rings 0.2 ms early, and its message takes 50
 * µs.
 */
const BEHIND_US = 150;

/** Microseconds of one turn of the event loop after which no more callbacks that may run late (`about`) are started. */
const ABOUT_US = 300;

/** Microseconds by which a callback must be overdue so that `catchUp` runs it. Other callbacks wait for the end of the turn. */
const OVERDUE_US = 1000;

/** After this many alarm threads have ended unexpectedly, the clock uses timers instead. */
export const ALARMS_MAX = 3;

/** Throws an error of a callback as an uncaught exception, whose handler decides its effect. */
function throwUncaught(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

interface Wait {
  readonly dueUs: number;
  /** The callback, or null after it was canceled. */
  wake: (() => void) | null;
}

/** Timed callbacks, earliest first. Callbacks with equal times run in the order in which they were added. */
class Waits {
  readonly #all: Wait[] = [];

  /** Adds a callback. Returns a function that cancels it. */
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

  /** Due time of the first callback; Infinity if there is none. */
  get dueUs(): number {
    const all = this.#all;
    while (all.length > 0 && all[0]!.wake === null) all.shift();
    return all.length > 0 ? all[0]!.dueUs : Number.POSITIVE_INFINITY;
  }

  /** Calls the first callback, unless it was canceled. */
  wakeFirst(): void {
    this.#all.shift()?.wake?.();
  }

  clear(): void {
    this.#all.length = 0;
  }
}

/**
 * A clock of real time. With an alarm thread, a wait spins only for its last 0.2 ms, without an alarm thread for its last
 * millisecond. Several callbacks may be pending; the alarm is set for the earliest. An error in one callback does not delay the
 * others.
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
  /** Number of callbacks that were passed to `turn` with `isDue` and have not run yet. */
  #lateTurns = 0;
  #spinning = false;
  #waking = false;
  #closed = false;

  /** `failed` receives errors of callbacks. Without `failed` these errors are uncaught exceptions of the process. */
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
    return this.#lateTurns > 0 ? Math.min(wallUs(), this.#pending.dueUs) : this.#pending.dueUs;
  }

  catchUp(): void {
    if (this.#waking || wallUs() - this.#pending.dueUs < OVERDUE_US) return;
    this.#wakeFirst();
  }

  turn(run: () => void, isDue = false): void {
    if (isDue) this.#lateTurns++;
    setImmediate(isDue ? this.#attemptLate : this.#attempt, run);
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

  /**
   * Returns the time for which the alarm is set. It is later for callbacks of `about`, because the clock does not spin for
   * them.
   */
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

  readonly #attemptLate = (run: () => void): void => {
    this.#lateTurns--;
    this.#attempt(run);
  };

  readonly #attempt = (run: () => void): void => {
    try {
      run();
    } catch (error) {
      this.#failed(error);
    }
  };

  /** Sets the alarm again, on a new thread or with a timer. Returns a text for the log that says which. */
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

/** Wraps another clock. Its subclass decides in `wrapped` how each callback runs. */
export abstract class WrappedClock implements Clock {
  constructor(protected readonly whole: Clock) {}

  protected abstract wrapped(act: () => void): () => void;

  now(): number {
    return this.whole.now();
  }

  at(dueUs: number, wake: () => void): Cancel {
    return this.whole.at(dueUs, this.wrapped(wake));
  }

  about(dueUs: number, wake: () => void): Cancel {
    const act = this.wrapped(wake);
    return this.whole.about?.(dueUs, act) ?? this.whole.at(dueUs, act);
  }

  nextUs(): number {
    return this.whole.nextUs();
  }

  turn(run: () => void, isDue?: boolean): void {
    this.whole.turn(this.wrapped(run), isDue);
  }

  soon(run: () => void): void {
    this.whole.soon(this.wrapped(run));
  }

  close(): void {
    this.whole.close();
  }
}

/** Wraps another clock, and can be closed before that clock is. After `close` it calls no callback. */
export class LeasedClock extends WrappedClock {
  #open = true;

  catchUp(): void {
    this.whole.catchUp?.();
  }

  override close(): void {
    this.#open = false;
  }

  protected wrapped(act: () => void): () => void {
    return () => {
      if (this.#open) act();
    };
  }
}
