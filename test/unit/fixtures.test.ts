/** Is a file of fixtures read as docs/fixtures.md says, what is wrong with one said where it is, and the right one found? */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { SAME_STEP } from "../../src/config/core-limits.ts";
import { LIMITS, pack, REGEX_CHARACTERS } from "../../src/text/canned/fixtures/fixture.ts";
import { FixtureFolder } from "../../src/text/canned/fixtures/folder.ts";
import { BrokenFixture, readFixtures } from "../../src/text/canned/fixtures/form.ts";
import { FixtureFile, type Question } from "../../src/text/canned/fixtures/match.ts";
import { times } from "../size.ts";

const KNOWN = { vocabularySize: 100, plays: ["greeting"] };
const read = (text: string) => readFixtures(text, KNOWN);
const packed = (text: string) => pack(read(text));
const ANSWER = "answer: x\n";

interface Asked {
  readonly path?: string;
  readonly model?: string | null;
  readonly user?: string | null;
  readonly messages?: readonly { readonly role: string; readonly content: string | null }[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}
const question = ({ path = "/v1/completions", model = null, user = null, messages = [], headers, body }: Asked) =>
  ({
    path,
    model,
    user: () => user,
    messages: () => messages,
    header: (name) => headers?.[name] ?? null,
    headers: () => headers ?? {},
    body: () => body ?? {},
  }) satisfies Question;

const holds = (match: string, asked: Asked) =>
  new FixtureFile(packed(`match: ${match}\n${ANSWER}`)).answerTo(question(asked)) !== null;

describe("conditions", () => {
  test.each<[string, Asked, Asked]>([
    ["{path: /v1/completions}", {}, { path: "/v1/chat/completions" }],
    ["{path: [/a, /v1/completions]}", {}, { path: "/b" }],
    ["{model: m}", { model: "m" }, { model: "M" }],
    ["{model: m}", { model: "m" }, { model: null }],
    ["{model: {regex: '^llama-\\d+$'}}", { model: "llama-3" }, { model: "llama-x" }],
    ["{user: Hello}", { user: "Hello" }, { user: "Hello!" }],
    ["{user: [Hello, Hi]}", { user: "Hi" }, { user: "Hello, Hi" }],
    ["{user: {contains: ell}}", { user: "Hello" }, { user: "HELLO" }],
    ["{user: {regex: '(?i)^hel+o$'}}", { user: "HELLLO" }, { user: "hello there" }],
    ["{user: {contains: a, regex: b}}", { user: "b a" }, { user: "b" }],
    ["{user: {regex: ''}}", { user: "" }, { user: null }],
    ["{headers: {X-Tenant: acme}}", { headers: { "x-tenant": "acme" } }, { headers: { "x-tenant": "other" } }],
    ["{headers: {x-tenant: {present: true}}}", { headers: { "x-tenant": "" } }, {}],
    ["{headers: {x-tenant: {present: false}}}", {}, { headers: { "x-tenant": "a" } }],
    ["{body: {stream: true}}", { body: { stream: true } }, { body: { stream: "true" } }],
    ["{body: {temperature: 0}}", { body: { temperature: 0 } }, { body: {} }],
    ["{body: {a.b.1: x}}", { body: { a: { b: ["y", "x"] } } }, { body: { a: { b: ["x"] } } }],
    ["{body: {stop: [a, b]}}", { body: { stop: ["a", "b"] } }, { body: { stop: ["b", "a"] } }],
    ["{body: {meta: {equals: {k: [1]}}}}", { body: { meta: { k: [1] } } }, { body: { meta: { k: [1], l: 1 } } }],
    ["{body: {name: {contains: x}}}", { body: { name: "axb" } }, { body: { name: ["x"] } }],
    ["{body: {tools: {present: true}}}", { body: { tools: null } }, { body: {} }],
    ["{body: {toString: {present: false}}}", { body: {} }, { body: { toString: 1 } }],
    ["{body: {x: null}}", { body: { x: null } }, { body: {} }],
    [
      "{messages: [{role: system, contains: pirate}]}",
      { messages: [{ role: "system", content: "You are a pirate" }] },
      { messages: [{ role: "user", content: "You are a pirate" }] },
    ],
    [
      "{messages: [{role: tool}, {contains: x}]}",
      {
        messages: [
          { role: "tool", content: null },
          { role: "user", content: "x" },
        ],
      },
      { messages: [{ role: "tool", content: null }] },
    ],
  ])("%s", (match, met, missed) => {
    expect([holds(match, met), holds(match, missed)]).toEqual([true, false]);
  });

  test("nothing asked for is met by everything", () => {
    expect(new FixtureFile(packed(ANSWER)).answerTo(question({}))).not.toBeNull();
  });

  test("the first that matches answers", () => {
    const file = new FixtureFile(
      packed("fixtures: [{match: {user: {contains: a}}, answer: 1st}, {match: {user: ab}, answer: 2nd}]"),
    );
    expect(file.answerTo(question({ user: "ab" }))).toMatchObject({ order: { text: "1st" } });
    expect(file.answerTo(question({ user: "b" }))).toBeNull();
  });

  test("nth counts the requests that meet all the rest", () => {
    const file = new FixtureFile(packed(`match: {user: a, nth: [2, 4]}\n${ANSWER}`));
    const asked = ["a", "b", "a", "a", "b", "a", "a"];
    expect(asked.map((user) => file.answerTo(question({ user })) !== null)).toEqual([
      false,
      false,
      true,
      false,
      false,
      true,
      false,
    ]);
  });

  test("an expression that would take ages elsewhere takes a moment, and sees the beginning of a text only", () => {
    expect(holds("{user: {regex: '(a+)+$'}}", { user: `${"a".repeat(1_000_000)}!` })).toBe(true); // of what it sees
    expect(holds("{user: {regex: '^(a|aa)+$'}}", { user: `${"a".repeat(30_000)}!` })).toBe(false);
    const late = `${" ".repeat(REGEX_CHARACTERS)}x`;
    expect(holds("{user: {regex: x}}", { user: late })).toBe(false);
    expect(holds("{user: {contains: x}}", { user: late })).toBe(true);
  });
});

describe("answers", () => {
  const answer = (text: string) => read(`answer: ${text}`)[0]!.answer;
  const single = { ids: Uint32Array.of(), largest: -1, steps: 0, finish: "stop", minusInfinityAt: [], timesMs: [] };
  test.each<[string, object]>([
    ["Hello", { order: { kind: "text", text: "Hello", script: null } }],
    [
      "{text: Hi, finish: length}",
      { order: { kind: "text", text: "Hi", script: { sequences: [{ finish: "length" }] } } },
    ],
    [
      "{text: Hi, burst: true, hold_after: 1}",
      { order: { script: { burst: true, holdAfter: 1, sequences: [single] } } },
    ],
    [
      "{text: Hi, times_ms: [5, 9]}",
      { order: { kind: "text", script: { sequences: [{ ...single, timesMs: [5, 9] }] } } },
    ],
    ["{echo: true}", { order: { kind: "echo" } }],
    [
      "{tokens: [1, 2]}",
      {
        order: {
          kind: "script",
          script: { sequences: [{ ...single, ids: Uint32Array.of(1, 2), largest: 2, steps: 2 }] },
        },
      },
    ],
    [
      "{steps: [[1, 2]], finish: error}",
      { order: { script: { sequences: [{ ids: Uint32Array.of(1 + SAME_STEP, 2), steps: 1, finish: "error" }] } } },
    ],
    [
      "{sequences: [{steps: [[1]]}, {steps: [], finish: length}]}",
      { order: { script: { sequences: [{ ids: Uint32Array.of(1), steps: 1 }, { finish: "length" }] } } },
    ],
    ["{play: greeting}", { order: { kind: "play", text: "greeting" } }],
    [
      "{error: 503}",
      { error: { status: 503, body: null, message: "Service Unavailable", type: "Service Unavailable" } },
    ],
    [
      "{error: {status: 400, message: no, param: x, retry_after_s: 1.2}}",
      { error: { message: "no", type: "BadRequestError", param: "x", headers: { "retry-after": "2" } } },
    ],
    ["{error: {status: 500, body: {a: [1]}}}", { error: { body: '{"a":[1]}', headers: {} } }],
    [
      "{error: {status: 502, body: oops, headers: {X-A: 5}}}",
      { error: { body: "oops", headers: { "content-type": "text/plain; charset=utf-8", "x-a": "5" } } },
    ],
  ])("%s", (text, wanted) => {
    expect(answer(text)).toMatchObject(wanted);
  });
});

test("an empty file holds none", () => {
  expect([read(""), read("# nothing yet\n"), read("fixtures: []")]).toEqual([[], [], []]);
});

test.each<[string, number, string]>([
  ["a: [", 1, "not YAML: "],
  ["answer: x\nanswer: y", 2, "not YAML: Map keys must be unique"],
  ["answer: !!js/function x", 1, "not YAML: Unresolved tag"],
  ["--- 1\n--- 2", 2, "not YAML: "],
  ["[]", 1, "takes a mapping of fixtures, match, answer"],
  ["match: {}", 1, '"answer" is missing'],
  ["fixtures:\n  - answer: x\n  - match: {}", 3, 'fixtures.1: "answer" is missing'],
  ["fixtures: []\nmatch: {}", 1, 'fixtures: either "fixtures" or "match", "answer" and "fault"'],
  ["matches: {}\nanswer: x", 1, "matches: not known; it takes fixtures, match, answer"],
  ["answer: x\nmatch:\n  usr: x", 3, "match.usr: not known; it takes path, model, user"],
  ["answer: x\nmatch:\n  user: 5", 3, "match.user: takes a text; quote what YAML reads as something else"],
  ["answer: x\nmatch:\n  user: {}", 3, "match.user: takes a text, or one of equals, contains, regex"],
  ["answer: x\nmatch:\n  user:\n    regex: '(a'", 4, "match.user.regex: no expression of RE2: missing closing )"],
  ["answer: x\nmatch: {user: {regex: '(?=a)'}}", 2, "match.user.regex: no expression of RE2: invalid or unsupported"],
  ["answer: x\nmatch: {user: {regex: '(\\w{1,50}\\s){15}'}}", 2, "match.user.regex: too large: "],
  ["answer: x\nmatch: {messages: [{}]}", 2, "match.messages.0: takes role, equals, contains, regex"],
  ["answer: x\nmatch: {headers: {'a b': x}}", 2, "match.headers.a b: no name of a header"],
  ["answer: x\nmatch: {headers: {a: {present: 1}}}", 2, "match.headers.a.present: takes true or false"],
  ["answer: x\nmatch: {body: {a: {b: 1}}}", 2, "match.body.a.b: not known; it takes present, equals, contains, regex"],
  ["answer: x\nmatch: {body: {a: {present: true, equals: 1}}}", 2, "match.body.a: takes a value, or one of"],
  ["answer: x\nmatch: {body: {a: .inf}}", 2, "match.body.a: takes what JSON can say"],
  ["answer: x\nmatch: {nth: 0}", 2, "match.nth: takes a whole number of at least 1"],
  ["answer: {text: a, echo: true}", 1, "answer: takes exactly one of tool_calls, prompted_json, text"],
  ["answer:\n  burst: true", 2, "answer: takes exactly one of tool_calls, prompted_json"],
  ["answer: {play: nobody}", 1, 'answer.play: no script of --script is named "nobody"'],
  ["answer: {play: greeting, burst: true}", 1, 'answer.burst: not beside "play"'],
  ["answer: {tokens: [1, 100]}", 1, "answer: token id 100 is out of vocabulary (100 ids)"],
  ["answer: {tokens: [x]}", 1, "answer: steps[0] must be a list of 1 to 32 token ids"],
  ["answer: {sequences: [{steps: [[]]}]}", 1, "answer: sequences[0].steps[0] must be a list of 1 to 32 token ids"],
  ["answer: {sequences: [], finish: length}", 1, "answer.finish: belongs to each of the sequences"],
  ["answer: {text: a, finish: abort}", 1, "answer: finish takes stop, length, error"],
  ["answer: {text: a, hold_after: -1}", 1, "answer: hold_after must be a whole number"],
  ["answer: {tool_calls: []}", 1, "answer.tool_calls: takes a list of 1 to 128 calls, each { name, arguments }"],
  ["answer: {tool_calls: look}", 1, "answer.tool_calls: takes a list of 1 to 128 calls"],
  ["answer:\n  tool_calls:\n    - name: a\n    - look", 4, "answer.tool_calls.1: takes { name, arguments }"],
  ["answer:\n  tool_calls:\n    - arguments: {}", 3, "answer.tool_calls.0.name: takes the name of a tool"],
  ["answer:\n  tool_calls:\n    - name: a\n      args: {}", 4, "answer.tool_calls.0.args: not known; it takes name"],
  ["answer:\n  tool_calls:\n    - name: a\n      arguments: 5", 4, "0.arguments: takes an object, or a text"],
  ["answer: {tool_calls: [{name: a, arguments: [1]}]}", 1, "0.arguments: takes an object, or a text"],
  ["answer: {tool_calls: [{name: a, arguments: {x: .nan}}]}", 1, "0.arguments: takes what JSON can say"],
  [`answer: {tool_calls: [{name: a, arguments: ${"{x: ".repeat(65)}1${"}".repeat(65)}}]}`, 1, "at most 64 levels"],
  ["answer: {tool_calls: [{name: a}], echo: true}", 1, "answer: takes exactly one of tool_calls"],
  ["answer: {tool_calls: [{name: a}], text: 5}", 1, "answer.text: takes a text"],
  ["answer: {parts: [{tool_calls: [{name: 5}]}]}", 1, "answer: parts[0.tool_calls.0.name]: takes the name of a tool"],
  ["answer: {echo: false}", 1, "answer.echo: takes true"],
  ["answer: {error: 200}", 1, "answer.error.status: takes a status from 400 to 599"],
  ["answer: {error: {status: 500, body: x, message: y}}", 1, 'answer.error.message: not beside "body"'],
  ["answer: {error: {status: 429, retry_after_s: soon}}", 1, "answer.error.retry_after_s: takes a number of seconds"],
  [
    "answer: {error: {status: 429, headers: {content-length: 5}}}",
    1,
    "content-length: no header that an answer may set",
  ],
  ['answer: {error: {status: 429, headers: {a: "b\\r\\nc: d"}}}', 1, "answer.error.headers.a: takes printable ASCII"],
])("refused: %s", (text, line, message) => {
  let thrown: unknown;
  try {
    read(text);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(BrokenFixture);
  expect((thrown as BrokenFixture).message).toContain(message);
  expect((thrown as BrokenFixture).line).toBe(line);
});

test("bombs are refused: aliases of aliases, brackets without end", () => {
  const bomb = ["a0: &a0 [x, x]", ...Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)];
  expect(() => read(bomb.join("\n"))).toThrow(BrokenFixture);
  expect(() => read("[".repeat(100_000))).toThrow(BrokenFixture);
  expect(() => read(`answer: x\nmatch: {user: {regex: ${"a".repeat(1001)}}}`)).toThrow("at most 1000 characters");
});

test("whatever a file holds, it is fixtures or broken", () => {
  const key = fc.constantFrom(
    "fixtures",
    "match",
    "answer",
    "user",
    "regex",
    "body",
    "error",
    "status",
    "tokens",
    "text",
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue({ maxDepth: 1 }),
      fc.array(tie("value")),
      fc.dictionary(key, tie("value")),
    ),
  }));
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        value.map((one) => JSON.stringify(one)),
      ),
      (text) => {
        try {
          expect(Array.isArray(read(text))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(BrokenFixture);
          expect((error as BrokenFixture).line).toBeGreaterThan(0);
        }
      },
    ),
    { numRuns: times(200) },
  );
});

describe("a folder", () => {
  let path: string;
  let folder: FixtureFolder;
  beforeEach(() => {
    path = mkdtempSync(join(tmpdir(), "understudy-fixtures-"));
    folder = new FixtureFolder(path, KNOWN);
  });
  afterEach(() => rmSync(path, { recursive: true }));
  const write = (name: string, text: string | Uint8Array) => writeFileSync(join(path, name), text);
  const names = () => folder.look().files.map(({ name, fixtures }) => `${name} ${fixtures?.length ?? "as before"}`);

  test("files in the order of their names; what is no YAML file does not count", () => {
    for (const name of ["b.yaml", "a.yml", "c.json", "B.YAML"]) write(name, '{"answer": "x"}');
    for (const name of [".hidden.yaml", "d.yaml~", "e.txt"]) write(name, "not: [");
    mkdirSync(join(path, "f.yaml"));
    symlinkSync(join(path, "b.yaml"), join(path, "z.yaml"));
    symlinkSync(join(path, "nowhere"), join(path, "gone.yaml"));
    expect(names()).toEqual(["B.YAML 1", "a.yml 1", "b.yaml 1", "c.json 1", "z.yaml 1"]);
  });

  test("a file that stays is not read anew; one that breaks is named once and skipped, and is back when it is mended", () => {
    write("a.yaml", ANSWER);
    write("b.yaml", ANSWER);
    expect(names()).toEqual(["a.yaml 1", "b.yaml 1"]);
    expect(folder.look()).toMatchObject({ changed: false, lines: [] });
    write("b.yaml", "answer: x\nmatch: 5");
    const broken = folder.look();
    expect(broken.lines).toEqual([
      "b.yaml:2: match: takes a mapping of path, model, user, messages, headers, body, nth; the file is skipped",
    ]);
    expect(broken).toMatchObject({ changed: true, files: [{ name: "a.yaml", fixtures: null }] });
    expect(folder.look()).toMatchObject({ changed: false, lines: [] });
    write("b.yaml", ANSWER);
    expect(names()).toEqual(["a.yaml as before", "b.yaml 1"]);
    unlinkSync(join(path, "a.yaml"));
    expect(folder.look()).toMatchObject({ changed: true, files: [{ name: "b.yaml", fixtures: null }] });
    renameSync(join(path, "b.yaml"), join(path, "c.yaml"));
    expect(names()).toEqual(["c.yaml 1"]);
  });

  test("limits: of a file, of all, of fixtures, of files", () => {
    write("a.yaml", `${ANSWER}#${"x".repeat(LIMITS.fileBytes)}`);
    write("b.yaml", Uint8Array.of(0xff, 0xfe, 0xfd));
    const many = `fixtures:\n${"- answer: x\n".repeat(LIMITS.fixtures - 1)}`;
    write("c.yaml", many);
    write("d.yaml", "fixtures: [{answer: x}, {answer: y}]");
    write("e.yaml", ANSWER);
    expect(folder.look()).toMatchObject({
      files: [{ name: "c.yaml" }, { name: "e.yaml" }],
      lines: [
        "a.yaml: 1048587 bytes, at most 1048576 are taken; the file is skipped",
        "b.yaml: no UTF-8; the file is skipped",
        "d.yaml: more than 10000 fixtures with it; the file is skipped",
      ],
    });
    rmSync(join(path, "c.yaml"));
    expect(names()).toEqual(["d.yaml 2", "e.yaml as before"]);
  });

  test("the thousand-and-first file is named", () => {
    for (let i = 0; i <= LIMITS.files; i++) write(`${1000 + i}.yaml`, "");
    const look = folder.look();
    expect(look.files.length).toBe(LIMITS.files);
    expect(look.lines).toEqual(["2000.yaml: the folder has more than 1000 files; the file is skipped"]);
  });
});
