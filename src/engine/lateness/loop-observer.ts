/**
 * Who looks at the steps of a loop? Counters of lateness, the truth, the balance among engines, held copies of metrics: all
 * are told in the same way, and each names only what it wants. Told per step, never per token; what nobody wants costs nothing.
 */
import type { Cause } from "./causes.ts";

/** A step at its end, microseconds. One object for all steps of a loop: it is the loop's again after the call. */
export interface EndingStep {
  /** When it was due as planned, and when it counts as due: later where engine time was moved on by `rebasedUs`. */
  readonly plannedUs: number;
  readonly dueUs: number;
  readonly rebasedUs: number;
  /** From when till when its rows were written, and when the plan that follows was done. */
  readonly startUs: number;
  readonly endUs: number;
  readonly doneUs: number;
  /** Requests that it gave tokens. */
  readonly rows: number;
  /** False: it ends when the loop gets to it (`--timing none`), so it cannot be late. */
  readonly isTimed: boolean;
  /** True: the step gave tokens more than `LATE_US` after it was due, or engine time was moved on. */
  readonly isLate: boolean;
  /** Why it is late: set by the first who looks into it (`Punctuality`). */
  cause: Cause;
}

/** In the order of a step's life. What is told stands in the core's memory, too, until the next call. */
export interface LoopObserver {
  /** A step is about to be planned: a point at which vLLM's engine publishes how loaded it is. */
  planning?(): void;
  planned?(boundaryUs: number): void;
  /** A step is about to be taken in. */
  updating?(nowUs: number): void;
  /** The step is taken in, and its rows are about to be handed out: the other point of publishing. */
  started?(step: EndingStep): void;
  /** The step's rows are handed out. */
  delivered?(step: EndingStep): void;
  /** The plan that follows it is done. */
  stepped?(step: EndingStep): void;
  /** What can be seen has moved: after `stepped`, and after a plan from idle. `idle`: no step is open. */
  moved?(idle: boolean): void;
  /** Planning has left no step open. */
  rested?(): void;
  /**
   * In simulated time so many steps with tokens, none of which ended a request, were one call of the core; it was told of none
   * of them. Whoever lacks this method sees every step.
   */
  coasted?(steps: number): void;
}

type Told = { readonly [Event in keyof Required<LoopObserver>]: LoopObserver[Event] | undefined };

/** All are told, in their order. A call that nobody wants is absent. */
export function together(observers: readonly LoopObserver[]): Told {
  const all = <Event extends keyof LoopObserver>(event: Event): LoopObserver[Event] | undefined => {
    const calls = observers.flatMap((one) => {
      const call = one[event] as ((fact: unknown) => void) | undefined;
      return call ? [call.bind(one)] : [];
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
