/** Are forced and forbidden tokens forced and forbidden, whatever the rules, and is an answer the same however it is read? */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type AnswerTables, nextToken } from "../../../src/text/answers/answers.ts";
import { SteeredAnswer, steer, type TokenRules } from "../../../src/text/answers/steered.ts";

const SIZE = 40;
const tables: AnswerTables = {
  templates: Uint8Array.from({ length: 64 }, (_, i) => i % 3),
  categoryStart: Int32Array.of(0, 10, 20, 30),
  ids: Int32Array.from({ length: 30 }, (_, i) => i),
};
const id = fc.nat(SIZE - 1);
const rules: fc.Arbitrary<TokenRules> = fc.record({
  only: fc.option(fc.uniqueArray(id, { minLength: 1, maxLength: 12 })),
  never: fc.uniqueArray(id, { maxLength: SIZE }).map((ids) => new Set(ids)),
  neverAfter: fc.array(
    fc.array(id, { minLength: 2, maxLength: 3 }).map((ids) => Uint32Array.from(ids)),
    { maxLength: 4 },
  ),
  ends: fc.uniqueArray(id, { maxLength: 2 }).map((ids) => new Set(ids)),
  endsFrom: fc.nat(20),
});
const all = (seed: number, given: TokenRules, length = 60) => [
  ...new SteeredAnswer(tables, seed, length, steer(given, SIZE)).subarray(0, length),
];

test("a forced set is kept, a forbidden token does not come while another is left", () =>
  fc.assert(
    fc.property(fc.integer(), rules, (seed, given) => {
      const { only, never } = given;
      const free = Array.from({ length: SIZE }, (_, one) => one).filter(
        (one) => (only?.includes(one) ?? true) && !never.has(one),
      );
      for (const token of all(seed, { ...given, neverAfter: [], ends: new Set() })) {
        if (only !== null) expect(only).toContain(token);
        if (free.length > 0) expect(free).toContain(token);
      }
    }),
  ));

test("an end does not come before its time while another token is left", () =>
  fc.assert(
    fc.property(fc.integer(), rules, (seed, given) => {
      const early = all(seed, { ...given, only: null, never: new Set(), neverAfter: [] }, given.endsFrom);
      for (const token of early) expect(given.ends.has(token)).toBe(false);
    }),
  ));

test("a sequence is not completed", () =>
  fc.assert(
    fc.property(fc.integer(), rules, (seed, given) => {
      const text = `,${all(seed, { ...given, only: null, never: new Set(), ends: new Set() }).join()},`;
      for (const words of given.neverAfter) expect(text).not.toContain(`,${words.join()},`);
    }),
  ));

test("read in pieces it is the same, and without rules the usual answer", () =>
  fc.assert(
    fc.property(fc.integer(), rules, fc.array(fc.integer({ min: 1, max: 20 })), (seed, given, sizes) => {
      const whole = all(seed, given);
      const answer = new SteeredAnswer(tables, seed, 60, steer(given, SIZE));
      const pieces: number[] = [];
      for (const size of [...sizes, 60]) pieces.push(...answer.subarray(pieces.length, pieces.length + size));
      expect(pieces).toEqual(whole);
      expect([...answer.subarray(0, 5)]).toEqual(whole.slice(0, 5));
      const none: TokenRules = { only: null, never: new Set(), neverAfter: [], ends: new Set(), endsFrom: 0 };
      expect(all(seed, none)).toEqual(Array.from({ length: 60 }, (_, at) => nextToken(tables, seed, at)));
    }),
  ));
