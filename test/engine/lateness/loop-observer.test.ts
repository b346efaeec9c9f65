/**
 * Checks that observers are called for a loop's steps in the order of a step's life, and that methods without an observer are
 * absent.
 */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { combineObservers, type LoopObserver } from "../../../src/engine/lateness/loop-observer.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf } from "../simulated-engine.ts";

test("methods without an observer are absent, a single observer is called directly, and several in order", () => {
  const seen: string[] = [];
  class Two implements LoopObserver {
    readonly name = "two";
    planned(us: number): void {
      seen.push(`${this.name} ${us}`);
    }
  }
  const combined = combineObservers([{ planned: (us) => void seen.push(`one ${us}`), moved: () => {} }, new Two()]);
  combined.planned?.(5);
  expect(seen).toEqual(["one 5", "two 5"]);
  const wanted = Object.entries(combined).flatMap(([name, call]) => (call ? [name] : []));
  expect(wanted).toEqual(["planned", "moved"]);
  expect(Object.values(combineObservers([])).filter(Boolean)).toEqual([]);
});

const EVENTS = ["planning", "planned", "updating", "started", "delivered", "stepped", "moved", "rested"] as const;

test("observers are called for two steps from the first plan to rest, with tokens between started and delivered", () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  const observer = Object.fromEntries(EVENTS.map((name) => [name, () => void seen.push(name)])) as LoopObserver;
  const config = configOf({ asyncScheduling: false });
  const options = { config, clock, module: debug, free: false, eosId: EOS, answers };
  const engine = new Engine({ ...options, loopObservers: [observer] });
  engine.submit(generationOf({ promptIds: promptOf(10, 0), maxTokens: 2, seed: 1, ignoreEos: true }), {
    onTokens: () => void seen.push("tokens"),
  });
  clock.drain(1000);
  const end = ["updating", "started", "tokens", "delivered"];
  const plan = ["planning", "planned"];
  const first = [...plan, "moved", ...end, ...plan, "stepped", "moved", ...end];
  expect(seen.slice(0, first.length)).toEqual(first);
  // The plan that reports the end has no rows.
  expect(seen.filter((name) => name === "tokens")).toHaveLength(2);
  expect(seen.slice(-2)).toEqual(["moved", "rested"]);
});

test("an observer without coasted gets each step, and one with it gets their number", () => {
  const stepsOf = (other: LoopObserver) => {
    const clock = new VirtualClock();
    const seen = { alone: 0, coasted: 0 };
    const counting: LoopObserver = {
      delivered({ rows }) {
        seen.alone += rows;
      },
      coasted(steps) {
        seen.coasted += steps;
      },
    };
    const options = { config: configOf({}), clock, module: debug, free: false, eosId: EOS, answers };
    const engine = new Engine({ ...options, loopObservers: [counting, other] });
    const generation = generationOf({ promptIds: promptOf(10, 0), maxTokens: 50, seed: 1, ignoreEos: true });
    engine.submit(generation, { endsOnly: true, onTokens: () => {} });
    clock.until(60_000_000);
    return seen;
  };
  expect(stepsOf({})).toEqual({ alone: 50, coasted: 0 });
  const { alone, coasted: many } = stepsOf({ coasted() {} });
  expect(many).toBeGreaterThan(40);
  expect(alone + many).toBe(50);
});
