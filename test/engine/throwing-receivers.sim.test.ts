/** Checks that a receiver that throws only ends its own generation, and that a trap of the core is reported in every call. */
import { expect, test } from "bun:test";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Finish, type Receiver } from "../../src/engine/interface/types.ts";
import type { EngineFaults } from "../../src/engine/options.ts";
import { CoreTrap } from "../../src/engine/wasm/core.ts";
import { answers, configOf, EOS, generationOf, release } from "./simulated-engine.ts";

const TOKENS = 6;
const FAILS_AT = 3;

/** Records tokens and ends. `fails`: the token at which it throws. */
class FailingReceiver implements Receiver {
  tokens = 0;
  finish: Finish | null = null;
  constructor(readonly fails = Number.POSITIVE_INFINITY) {}

  onTokens(_ids: Int32Array, _at: number, count: number, finish: Finish | null): void {
    this.tokens += count;
    this.finish = finish;
    if (this.tokens >= this.fails && finish !== Finish.Error) throw new Error("planted in a receiver");
  }
}

class BreakCounter extends FailingReceiver {
  breaks = 0;
  broken(): void {
    this.breaks++;
  }
}

function engineWith(faults?: EngineFaults) {
  const clock = new VirtualClock();
  const config = configOf({});
  const engine = new Engine({
    config,
    clock,
    module: release,
    free: false,
    eosId: EOS,
    answers,
    ...(faults ? { faults } : {}),
  });
  const submit = (receiver: Receiver) => engine.submit(generationOf({ maxTokens: TOKENS, ignoreEos: true }), receiver);
  return { clock, engine, submit };
}

function notedFaults() {
  const broke: unknown[] = [];
  const failed: unknown[] = [];
  return {
    broke,
    failed,
    faults: { broke: (e: unknown) => broke.push(e), receiverFailed: (e: unknown) => failed.push(e) },
  };
}

test.each([FAILS_AT, TOKENS])("a receiver that throws at token %d only ends its own request", (at) => {
  const { broke, failed, faults } = notedFaults();
  const { clock, engine, submit } = engineWith(faults);
  const receivers = [new FailingReceiver(), new FailingReceiver(at), new BreakCounter(at), new FailingReceiver()];
  for (const receiver of receivers) submit(receiver);
  clock.drain();
  expect(receivers.map(({ tokens }) => tokens)).toEqual([TOKENS, at, at, TOKENS]);
  expect(receivers[1]!.finish).toBe(Finish.Error);
  expect((receivers[2] as BreakCounter).breaks).toBe(1);
  expect(receivers[3]!.finish).toBe(Finish.Length);
  expect(failed.map(String)).toEqual(["Error: planted in a receiver", "Error: planted in a receiver"]);
  expect(broke).toEqual([]);
  expect(engine.live).toBe(0);
});

test("without a fault handler, a receiver's error reaches the caller that advances the clock", () => {
  const { clock, submit } = engineWith();
  submit(new FailingReceiver(FAILS_AT));
  expect(() => clock.drain()).toThrow("planted in a receiver");
});

test("a trap of the core is reported and also thrown to the caller", () => {
  const { broke, faults } = notedFaults();
  const { engine } = engineWith(faults);
  expect(() => engine.submit(generationOf({ maxTokens: 0 }), new FailingReceiver())).toThrow(CoreTrap);
  expect(broke).toHaveLength(1);
});
