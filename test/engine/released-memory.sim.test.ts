/** Does an engine at rest keep what it knew of generations that have ended? */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { Receiver } from "../../src/engine/interface/types.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf } from "./simulated-engine.ts";

const MANY = 64;

/** Nothing but the engine may know them when this has returned. */
function served(engine: Engine, clock: VirtualClock, endsOnly: boolean): WeakRef<Receiver>[] {
  const receivers = Array.from({ length: MANY }, (_, stream): Receiver => {
    const receiver = { endsOnly, onTokens: () => {} };
    const generation = generationOf({ promptIds: promptOf(4, stream), maxTokens: 8, ignoreEos: true });
    expect(engine.submit(generation, receiver)).not.toHaveProperty("refused");
    return receiver;
  });
  clock.drain(10_000);
  return receivers.map((receiver) => new WeakRef(receiver));
}

test.each([false, true])("an engine at rest keeps no receiver of the last step (ends only: %p)", async (endsOnly) => {
  const clock = new VirtualClock();
  const config = configOf({ maxNumSeqs: MANY, maxNumBatchedTokens: 512 });
  const engine = new Engine({ config, clock, module: debug, free: false, eosId: EOS, answers });
  const served64 = served(engine, clock, endsOnly);
  // A reference is strong until its turn is over.
  await new Promise(setImmediate);
  Bun.gc(true);
  // What stands on the stack by chance is kept, too.
  expect(served64.filter((receiver) => receiver.deref() !== undefined).length).toBeLessThan(MANY / 8);
  expect(engine.view("now").running).toBe(0);
});
