/** Drawn texts fit their grammar. */
import { expect, test } from "bun:test";
import { writerOf } from "../../../src/text/grammar/structure.ts";

const GRAMMARS: readonly (readonly [string, RegExp])[] = [
  ['root ::= "a" | "b" [0-9]{2}', /^(a|b\d\d)$/],
  ['root ::= item ("," item)*\nitem ::= [a-z]+ # a word', /^[a-z]+(,[a-z]+)*$/],
  ['root ::= "(" root ")" | "x"', /^\(*x\)*$/],
  ['root ::= "\\x41\\u0042\\n"?', /^(AB\n)?$/],
  ['start: greeting " " NAME\ngreeting: "hi" | "hello"\nNAME: /[A-Z][a-z]{2,4}/', /^(hi|hello) [A-Z][a-z]{2,4}$/],
  ['?start: sum\nsum: INT ("+" INT)~1..3\n%import common.INT\n%ignore " "', /^\d+(\+\d+){1,3}$/],
  ['start: "a".."c" ["x"]\n     | "z"', /^([abc]x?|z)$/],
];

test.each(GRAMMARS)("%s", (grammar, fits) => {
  const write = writerOf({ kind: "grammar", grammar });
  for (let seed = 0; seed < 100; seed++) expect(write(seed, 0)).toMatch(fits);
});

test("all alternatives and all numbers of repetitions occur", () => {
  const write = writerOf({ kind: "grammar", grammar: 'root ::= ("a" | "b"){0,3}' });
  const seen = new Set(Array.from({ length: 200 }, (_, seed) => write(seed, 0)));
  expect(seen.size).toBe(15);
});

test("an endless text is cut, and a rule that only names itself gives an empty text", () => {
  expect(writerOf({ kind: "grammar", grammar: 'root ::= "ab" root' })(1, 0)!.length).toBeGreaterThan(10_000);
  expect(writerOf({ kind: "grammar", grammar: "root ::= root" })(1, 0)).toBe("");
});

const TAGS = [
  [
    {
      type: "structural_tag",
      format: {
        type: "sequence",
        elements: [
          { type: "const_string", value: "a" },
          { type: "regex", pattern: "[0-9]{2}" },
        ],
      },
    },
    /^a\d\d$/,
  ],
  [
    {
      type: "structural_tag",
      format: {
        type: "tag",
        begin: "<t>",
        content: { type: "json_schema", json_schema: { type: "boolean" } },
        end: "</t>",
      },
    },
    /^<t>(true|false)<\/t>$/,
  ],
  [
    { structures: [{ begin: "<f=a>", schema: { const: 1 }, end: "</f>" }], triggers: ["<f="] },
    /^([a-z ]+ )?<f=a>1<\/f>$/,
  ],
] as const;

test.each(TAGS)("tags: %j", (tags, fits) => {
  const write = writerOf({ kind: "tags", tags: JSON.stringify(tags) });
  for (let seed = 0; seed < 50; seed++) expect(write(seed, 0)).toMatch(fits);
});
