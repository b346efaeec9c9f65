/** Tests the times of transfers of prompts that another server computed (`--kv-transfer-time`). */
import { expect, test } from "bun:test";
import { LiveCell } from "../../../../src/base/live-value.ts";
import { resolveServeConfig } from "../../../../src/cli/serve/resolve.ts";
import type { KvTransferTime } from "../../../../src/kernel/kernel-config.ts";
import { Transfers } from "../../../../src/servers/openai/request/kv-transfer.ts";

const REMOTE = { remotePrefill: true, remoteDecode: false };

function transfers(time: Partial<KvTransferTime>, seed = 1): Transfers {
  const kvTransferTime = { baseUs: 0, tokenUs: 0, deviationUs: 0, stepUs: 0, ...time };
  return new Transfers(new LiveCell(kvTransferTime), seed);
}

test("a transfer takes its base time and a time per token, minus the time of the first step", () => {
  expect(transfers({ baseUs: 5000, tokenUs: 2.5 }).us(REMOTE, 101)).toBe(5253);
  expect(transfers({ baseUs: 5000, stepUs: 2000 }).us(REMOTE, 9)).toBe(3000);
  expect(transfers({ baseUs: 5000, stepUs: 6000 }).us(REMOTE, 9)).toBe(0);
});

test("a prompt that is computed here has no transfer", () => {
  expect(transfers({ baseUs: 5000 }).us({ remotePrefill: false, remoteDecode: true }, 9)).toBeUndefined();
});

test("times have the configured deviation, follow from the seed, and stay between 0.3 and 1.7 of their mean", () => {
  const times = (deviationUs: number, seed = 1) => {
    const drawing = transfers({ tokenUs: 1000, deviationUs }, seed);
    return Array.from({ length: 3000 }, () => drawing.us(REMOTE, 100)!);
  };
  const drawn = times(20_000);
  const mean = drawn.reduce((sum, us) => sum + us, 0) / drawn.length;
  const variance = drawn.reduce((sum, us) => sum + (us - mean) ** 2, 0) / drawn.length;
  expect(mean).toBeWithin(98_500, 101_500);
  expect(Math.sqrt(variance)).toBeWithin(19_000, 21_000);
  expect(times(20_000)).toEqual(drawn);
  expect(times(20_000, 2)).not.toEqual(drawn);
  const wide = times(1_000_000);
  expect([Math.min(...wide), Math.max(...wide)]).toEqual([30_000, 170_000]);
});

test.each(["", "base", "base=1", "base=1ms,base=2ms", "most=1ms"])('the option does not accept "%s"', (text) => {
  const resolved = resolveServeConfig(["--kv-transfer-time", text], {}, () => "");
  expect("error" in resolved && resolved.error).toContain("--kv-transfer-time: takes one or more of base=10ms");
});

test("a changed time applies from the next request on", () => {
  const first = { baseUs: 5000, tokenUs: 0, deviationUs: 0, stepUs: 0 };
  const time = new LiveCell<KvTransferTime | undefined>(first);
  const changing = new Transfers(time, 1);
  expect(changing.us(REMOTE, 9)).toBe(5000);
  time.set({ ...first, baseUs: 7000 });
  expect(changing.us(REMOTE, 9)).toBe(7000);
  time.set(undefined);
  expect(changing.us(REMOTE, 9)).toBeUndefined();
});
