/** Tests the topics of a subscriber against a plain list, and their limits. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Topics } from "../../../src/wire/zmtp/topics.ts";
import { times } from "../../size.ts";

const topic = fc.array(fc.constantFrom(0, 97, 255), { maxLength: 3 }).map((bytes) => Buffer.from(bytes));

test("a message is wanted if a topic that is not taken back is a prefix of it", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), topic), { maxLength: 20 }), topic, (changes, first) => {
      const topics = new Topics();
      const plain: string[] = [];
      for (const [isAdded, one] of changes) {
        const key = one.toString("latin1");
        if (isAdded) {
          expect(topics.add(one)).toBe(true);
          plain.push(key);
        } else {
          topics.remove(one);
          if (plain.includes(key)) plain.splice(plain.indexOf(key), 1);
        }
      }
      expect(topics.wants(first)).toBe(plain.some((key) => first.toString("latin1").startsWith(key)));
      expect(new Set([...topics].map((one) => one.toString("latin1")))).toEqual(new Set(plain));
    }),
    { seed: 1, numRuns: times(500) },
  );
});

test("a subscriber has at most 10,000 topics", () => {
  const topics = new Topics();
  const numbered = (at: number) => Buffer.from(`${at}`);
  for (let at = 0; at < 10_000; at++) expect(topics.add(numbered(at))).toBe(true);
  expect(topics.add(numbered(10_000))).toBe(false);
  expect(topics.add(numbered(9_999))).toBe(true);
  topics.remove(numbered(5));
  expect(topics.add(numbered(10_000))).toBe(true);
  expect(new Topics().add(Buffer.alloc(2 ** 20 + 1))).toBe(false);
});
