/** Checks that an idle engine keeps no references to ended generations. */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { Receiver } from "../../src/engine/interface/types.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf } from "./simulated-engine.ts";

const MANY = 64;

/** After this function returns, only the engine may refer to the receivers. */
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

test.each([false, true])("an idle engine keeps no receiver of the last step (ends only: %p)", async (endsOnly) => {
  const clock = new VirtualClock();
  const config = configOf({ maxNumSeqs: MANY, maxNumBatchedTokens: 512 });
  const engine = new Engine({ config, clock, module: debug, free: false, eosId: EOS, answers });
  const served64 = served(engine, clock, endsOnly);
  // A WeakRef that was read stays alive until the end of the turn.
  await new Promise(setImmediate);
  Bun.gc(true);
  // A value that happens to be on the stack is kept, too.
  expect(served64.filter((receiver) => receiver.deref() !== undefined).length).toBeLessThan(MANY / 8);
  expect(engine.view("now").running).toBe(0);
});
