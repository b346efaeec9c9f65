/**
 * Constraints get the errors of vLLM 0.33. They were recorded from its `_validate_structured_outputs`, with xgrammar 0.2.8 and
 * llguidance 1.7.6.
 */
import { expect, test } from "bun:test";
import { type Structure, writerOf } from "../../../src/text/grammar/structure.ts";
import recorded from "./refusals.json" with { type: "json" };

type Constraint = Partial<Record<"regex" | "grammar" | "structural_tag", string>> & {
  json?: unknown;
  choice?: string[];
};

function structureOf({ json, regex, grammar, choice, structural_tag: tags }: Constraint): Structure {
  if (regex !== undefined) return { kind: "regex", pattern: regex };
  if (grammar !== undefined) return { kind: "grammar", grammar };
  if (choice !== undefined) return { kind: "choice", choices: choice };
  if (tags !== undefined) return { kind: "tags", tags };
  return { kind: "json", schema: typeof json === "string" ? json : JSON.stringify(json) };
}

function errorOf(constraint: Constraint): string | null {
  try {
    const write = writerOf(structureOf(constraint));
    for (let seed = 0; seed < 3; seed++) write(seed, 0);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Known differences from vLLM, with our errors (docs/how-to/structured-output.md). */
const DIFFERENT: Readonly<Record<string, RegExp>> = {
  "a{1000000}": /^understudy: .* at most 65536 are drawn/,
  "(a{1000}){1000}": /^understudy: .* at most 65536 are drawn/,
  "a{2}{3}": /^understudy: .* Nothing to repeat/,
  "[\\": /unclosed character class/,
  "start: (": /^Grammar error: Expected token '\)'/,
  '{"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"type": "nothing"}}}': /^$/,
};

test.each(
  (recorded as { constraint: Constraint; error: string | null }[]).map(
    ({ constraint, error }) => [JSON.stringify(constraint), constraint, error] as const,
  ),
)("%s", (_, constraint, error) => {
  const different = DIFFERENT[Object.values(constraint)[0] as string];
  const got = errorOf(constraint);
  if (different === undefined) expect(got).toBe(error);
  else expect(got ?? "").toMatch(different);
});

test("nested groups have the limit of Rust's parser, and its message", () => {
  for (const depth of [250, 251, 5000]) {
    const pattern = `${"(".repeat(depth)}a${")".repeat(depth)}`;
    const what = `regex parse error:\n    ${pattern}\n    ${" ".repeat(250)}${"^".repeat(2 * depth - 499)}\nerror: exceed the maximum number of nested parentheses/brackets (250)`;
    const asRegex = `Grammar error: at 1(8): invalid regex "${pattern}" (in regex): ${what}\n   1 | start: /${pattern}/\n              ^`;
    expect(errorOf({ regex: pattern })).toBe(depth === 250 ? null : asRegex);
    expect(errorOf({ json: { type: "string", pattern } })).toBe(depth === 250 ? null : `Grammar error: ${what}`);
  }
});
