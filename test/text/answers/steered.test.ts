/** Answers obey any rules on forced and forbidden tokens, and are the same however they are read. */
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
const all = (seed: number, tokenRules: TokenRules, length = 60) => [
  ...new SteeredAnswer(tables, seed, length, steer(tokenRules, SIZE)).subarray(0, length),
];

test("all tokens are of the forced set, and none is forbidden as long as another is allowed", () =>
  fc.assert(
    fc.property(fc.integer(), rules, (seed, drawnRules) => {
      const { only, never } = drawnRules;
      const free = Array.from({ length: SIZE }, (_, token) => token).filter(
        (token) => (only?.includes(token) ?? true) && !never.has(token),
      );
      for (const token of all(seed, { ...drawnRules, neverAfter: [], ends: new Set() })) {
        if (only !== null) expect(only).toContain(token);
        if (free.length > 0) expect(free).toContain(token);
      }
    }),
  ));

test("no end comes before its position as long as another token is allowed", () =>
  fc.assert(
    fc.property(fc.integer(), rules, (seed, drawnRules) => {
      const early = all(seed, { ...drawnRules, only: null, never: new Set(), neverAfter: [] }, drawnRules.endsFrom);
      for (const token of early) expect(drawnRules.ends.has(token)).toBe(false);
    }),
  ));

test("a forbidden sequence never occurs", () =>
  fc.assert(
    fc.property(fc.integer(), rules, (seed, drawnRules) => {
      const text = `,${all(seed, { ...drawnRules, only: null, never: new Set(), ends: new Set() }).join()},`;
      for (const words of drawnRules.neverAfter) expect(text).not.toContain(`,${words.join()},`);
    }),
  ));

test("reading in pieces gives the same answer, and without rules it is the usual one", () =>
  fc.assert(
    fc.property(fc.integer(), rules, fc.array(fc.integer({ min: 1, max: 20 })), (seed, drawnRules, sizes) => {
      const whole = all(seed, drawnRules);
      const answer = new SteeredAnswer(tables, seed, 60, steer(drawnRules, SIZE));
      const pieces: number[] = [];
      for (const size of [...sizes, 60]) pieces.push(...answer.subarray(pieces.length, pieces.length + size));
      expect(pieces).toEqual(whole);
      expect([...answer.subarray(0, 5)]).toEqual(whole.slice(0, 5));
      const none: TokenRules = { only: null, never: new Set(), neverAfter: [], ends: new Set(), endsFrom: 0 };
      expect(all(seed, none)).toEqual(Array.from({ length: 60 }, (_, at) => nextToken(tables, seed, at)));
    }),
  ));
