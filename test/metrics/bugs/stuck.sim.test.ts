/**
 * Checks, step by step, which gauges stick after the last request has ended and when they change again, for both bug modes of
 * this kind.
 */
import { describe, expect, test } from "bun:test";
import { type StickyGauges, stuck } from "../../../src/metrics/bugs/stuck.ts";
import type { BugName } from "../../../src/metrics/config/bug-names.ts";
import { configOf, promptOf, World } from "../../engine/simulated-engine.ts";
import { emptySnapshot } from "../snapshots.ts";

function stuckWorld(asyncScheduling: boolean, ...bugs: BugName[]) {
  let sticking: StickyGauges | null = null;
  const world = new World(configOf({ asyncScheduling }), {
    more: () => ({ loopObservers: [{ updating: () => sticking?.observe() }] }),
  });
  const views = { now: [world.engine.view("now")], step: [world.engine.view("step")] };
  sticking = stuck(bugs, (fresh) => ({ ...emptySnapshot(), engines: views[fresh] }))!;
  const { source } = sticking;
  const shown = (fresh: "now" | "step" = "step") => {
    const { running, waiting, kvUsage, planRequests, blocksUsed } = source(fresh).engines[0]!;
    return { running, waiting, kvUsage, planRequests, blocksUsed };
  };
  const ask = (maxTokens = 50) => world.submit({ promptIds: promptOf(40), maxTokens, ignoreEos: true })!;
  const pass = (us: number) => world.clock.advanceTo(world.clock.now() + us);
  return { world, shown, ask, pass };
}
const NOTHING = { running: 0, waiting: 0, kvUsage: 0, planRequests: 0, blocksUsed: 0 };

describe.each([true, false])("asynchronous %p", (asyncScheduling) => {
  test("after the last client disconnected, the gauges stick and the current numbers are true", () => {
    const { world, shown, ask, pass } = stuckWorld(asyncScheduling, "stuck-kv-usage", "stuck-requests");
    const two = [ask(), ask()];
    pass(20_000);
    const busy = shown();
    expect([busy.running, busy.kvUsage > 0]).toEqual([2, true]);
    for (const request of two) request.cancel();
    world.clock.drain();
    expect(shown()).toEqual({ ...NOTHING, running: 2, kvUsage: busy.kvUsage });
    expect(shown("now")).toEqual(NOTHING);
    pass(1_000_000);
    expect(shown().running).toBe(2);
    // The next request restores the true values, also after its own end.
    ask();
    pass(5000);
    expect(shown().running).toBe(1);
    world.clock.drain();
    expect(shown()).toEqual(NOTHING);
  });

  test("each bug mode keeps only its own numbers", () => {
    const { world, shown, ask, pass } = stuckWorld(asyncScheduling, "stuck-kv-usage");
    const request = ask();
    pass(20_000);
    request.cancel();
    world.clock.drain();
    const { kvUsage, ...others } = shown();
    expect({ ...others, kvUsage: 0 }).toEqual(NOTHING);
    expect(kvUsage).toBeGreaterThan(0);
  });

  test("nothing sticks if the last request ends by itself, even if others disconnected before", () => {
    const { world, shown, ask, pass } = stuckWorld(asyncScheduling, "stuck-kv-usage", "stuck-requests");
    const [gone] = [ask(), ask()];
    pass(20_000);
    gone.cancel();
    world.clock.drain();
    expect(shown()).toEqual(NOTHING);
  });

  test("stale-gauges: TensorRT-LLM's gauges stick after any end", () => {
    const { world, shown, ask } = stuckWorld(asyncScheduling, "stale-gauges");
    ask();
    world.clock.drain();
    const { running, kvUsage, planRequests, blocksUsed } = shown();
    expect([running, kvUsage, planRequests, blocksUsed > 0]).toEqual([0, 0, 1, true]);
  });
});
