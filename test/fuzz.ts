/** Fuzzes parsers: generates nearly valid bytes and checks that CPU time and memory stay in proportion to the input. */

import { heapStats } from "bun:jsc";
import { expect } from "bun:test";
import fc from "fast-check";
import { cpuUs } from "./cpu.ts";
import { seed, times } from "./size.ts";

/** Size limit of an input that is enlarged by repeated parts, in bytes. */
const BYTES_MOST = 65_536;
/** Default number of inputs whose results stay alive together while memory is measured. */
const GROUP = 40;
/** Number of inputs parsed before the measurement, so that the parser is compiled. */
const WARM_UP = 40;
/** Number of extra runs after a run above its bound. The minimum of all runs counts. */
const MORE_RUNS = 6;

/**
 * Repeats or moves parts of valid input, such as frames or lines. In half of the cases it also changes bytes or cuts the end.
 * Parts are repeated up to thousands of times, like a client that looks for expensive input.
 */
export function mutated(valid: fc.Arbitrary<readonly Buffer[]>): fc.Arbitrary<Buffer> {
  const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
  const ofParts = fc.oneof(
    fc.record({ place, length: fc.integer({ min: 1, max: 3 }), times: fc.oneof(fc.nat(3), fc.nat(5000)) }),
    fc.record({ place, to: place }),
  );
  const ofBytes = fc.oneof(fc.record({ place, byte: fc.nat(255) }), fc.record({ place, length: fc.nat(40) }));
  return fc
    .tuple(
      valid,
      fc.array(ofParts, { maxLength: 3 }),
      fc.oneof(fc.constant([]), fc.array(ofBytes, { minLength: 1, maxLength: 4 })),
    )
    .map(([parts, partChanges, byteChanges]) => {
      let all = [...parts];
      for (const change of partChanges) {
        const at = Math.floor(change.place * all.length);
        if ("to" in change) all.splice(Math.floor(change.to * all.length), 0, ...all.splice(at, 1));
        else {
          const some = Buffer.concat(all.slice(at, at + change.length));
          const most = Math.floor((BYTES_MOST - Buffer.concat(all).length) / Math.max(1, some.length));
          all = [...all.slice(0, at), ...Array(Math.max(0, Math.min(change.times, most))).fill(some), ...all.slice(at)];
        }
      }
      let bytes = Buffer.concat(all);
      for (const change of byteChanges) {
        const at = Math.floor(change.place * bytes.length);
        if ("byte" in change) bytes[at] = change.byte;
        else if (change.length === 0) bytes = bytes.subarray(0, at);
        else bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + change.length)]);
      }
      return bytes;
    });
}

/**
 * Limits of a parser. `usMore` and `memoryMore` are allowances per input, in addition to those per byte. Times are in
 * microseconds, memory in bytes.
 */
export interface Bounds {
  readonly usPerByte: number;
  readonly usMore: number;
  readonly memoryPerByte: number;
  readonly memoryMore: number;
}

const heapBytes = () => {
  Bun.gc(true);
  const { heapSize, extraMemorySize } = heapStats();
  return heapSize + extraMemorySize;
};

/**
 * Parses `runs` inputs. Fails unless each one stays within its CPU time, and the results of a group stay within their memory.
 * `begin` makes a parser and is not measured. The parser is called once, must not throw, and returns everything that it
 * keeps.
 */
export function fuzz(
  runs: number,
  inputs: fc.Arbitrary<Buffer>,
  bounds: Bounds,
  begin: () => (bytes: Buffer) => unknown,
  group = GROUP,
): void {
  const samples = fc.sample(inputs, { numRuns: times(runs), seed });
  for (const bytes of samples.slice(0, Math.min(WARM_UP, 5 * group))) begin()(bytes);
  for (let from = 0; from < samples.length; from += group) {
    const some = samples.slice(from, from + group);
    const parsers = some.map(() => begin());
    const before = heapBytes();
    const kept: unknown[] = [];
    for (const [at, bytes] of some.entries()) {
      const most = bounds.usMore + bounds.usPerByte * bytes.length;
      let us = cpuUs(() => kept.push(parsers[at]!(bytes)), 1);
      for (let more = MORE_RUNS; us > most && more > 0; more--) {
        const parse = begin();
        us = Math.min(
          us,
          cpuUs(() => parse(bytes), 1),
        );
      }
      if (us > most)
        expect(`${us} us for ${bytes.length} bytes: ${bytes.toString("base64").slice(0, 400)}`).toBe("less");
    }
    const grown = heapBytes() - before;
    const sum = some.reduce((all, { length }) => all + length, 0);
    expect(grown, `memory of inputs ${from} to ${from + some.length}, ${sum} bytes`).toBeLessThanOrEqual(
      bounds.memoryMore * some.length + bounds.memoryPerByte * sum,
    );
    expect(kept).toHaveLength(some.length);
  }
}
