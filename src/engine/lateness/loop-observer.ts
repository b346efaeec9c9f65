/**
 * Interface of the observers of a loop's steps, such as lateness counters, truth log, balancing and metrics. Each
 * observer implements only the methods that it needs. Called per step, never per token. Events without an observer cost
 * nothing.
 */
import type { Cause } from "./causes.ts";

/** A step at its end. Times are microseconds. The loop reuses the object, so observers must not keep it. */
export interface EndingStep {
  /** Planned end, and the end after engine time was moved forward by `rebasedUs`. */
  readonly plannedUs: number;
  readonly dueUs: number;
  readonly rebasedUs: number;
  /** Start and end of writing its rows, and the time at which the next plan was done. */
  readonly startUs: number;
  readonly endUs: number;
  readonly doneUs: number;
  /** Number of requests that got tokens. */
  readonly rows: number;
  /** False if the step ends when the loop reaches it (`--timing none`), so that it cannot be late. */
  readonly isTimed: boolean;
  /** True if the step gave tokens more than `LATE_US` after it was due, or if engine time was moved forward. */
  readonly isLate: boolean;
  /** Cause of the lateness, set by `Punctuality`. */
  cause: Cause;
}

/** In the order of a step's life. The core's memory has the same state until the next call. */
export interface LoopObserver {
  /** Before a plan. vLLM's engine publishes its load at this time. */
  planning?(): void;
  planned?(boundaryUs: number): void;
  /** Before an update. */
  updating?(nowUs: number): void;
  /** After an update and before its rows are delivered. vLLM's engine also publishes its load at this time. */
  started?(step: EndingStep): void;
  /** After the step's rows are delivered. */
  delivered?(step: EndingStep): void;
  /** After the next plan. */
  stepped?(step: EndingStep): void;
  /** Called when visible state has changed: after `stepped`, and after a plan from idle. `idle`: no step is open. */
  moved?(idle: boolean): void;
  /** Called if a plan left no step open. */
  rested?(): void;
  /**
   * In simulated time: `steps` steps with tokens, of which none ended a request, ran in one call of the core. No other
   * method was called for them. If any observer lacks this method, steps never run this way.
   */
  coasted?(steps: number): void;
}

type ObserverCalls = { readonly [Event in keyof Required<LoopObserver>]: LoopObserver[Event] | undefined };

/** Combines observers, which are called in order. A method without an observer is absent. */
export function combineObservers(observers: readonly LoopObserver[]): ObserverCalls {
  const all = <Event extends keyof LoopObserver>(event: Event): LoopObserver[Event] | undefined => {
    const calls = observers.flatMap((observer) => {
      const call = observer[event] as ((fact: unknown) => void) | undefined;
      return call ? [call.bind(observer)] : [];
    });
    if (calls.length < 2) return calls[0] as LoopObserver[Event] | undefined;
    const each = (fact: unknown): void => {
      for (const call of calls) call(fact);
    };
    return each as LoopObserver[Event];
  };
  return {
    planning: all("planning"),
    planned: all("planned"),
    updating: all("updating"),
    started: all("started"),
    delivered: all("delivered"),
    stepped: all("stepped"),
    moved: all("moved"),
    rested: all("rested"),
    coasted: all("coasted"),
  };
}
