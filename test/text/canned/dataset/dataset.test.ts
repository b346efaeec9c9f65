/** Prompts get the right row of a dataset, and a file that cannot be used gets the right error. */

import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { UserError } from "../../../../src/base/start-errors.ts";
import { type DatasetFile, openDataset } from "../../../../src/text/canned/dataset/dataset.ts";
import { answerOf } from "../../../../src/text/canned/dataset/row.ts";
import { RowIndex } from "../../../../src/text/canned/dataset/row-index.ts";
import { BpeEncoder } from "../../../../src/text/tokens/bpe.ts";
import { loadVocabulary } from "../../../../src/text/tokens/vocabulary.ts";

const built = (name: string) => new Uint8Array(readFileSync(new URL(`../../../../build/${name}`, import.meta.url)));
const vocabulary = loadVocabulary(built("vocabulary.bin"));
const bpe = new BpeEncoder(built("vocabulary.bin"));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "understudy-dataset-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The table, as the tool that makes datasets creates it. */
const TABLE =
  "CREATE TABLE llmd (id INTEGER PRIMARY KEY, prompt_hash BLOB NOT NULL, gen_tokens JSON NOT NULL, n_gen_tokens INTEGER NOT NULL)";
const hashOf = (ids: readonly number[]) => {
  const bytes = Buffer.alloc(4 * ids.length);
  for (const [at, id] of ids.entries()) bytes.writeUInt32LE(id, 4 * at);
  return createHash("sha256").update(bytes).digest();
};
type Row = readonly [prompt: readonly number[], tokens: object | string, count: number];
let files = 0;
function writeFile(rows: readonly Row[]): DatasetFile {
  const file = join(folder, `${files++}.sqlite3`);
  const database = new Database(file);
  database.exec(TABLE);
  for (const [prompt, tokens, count] of rows)
    database
      .query("INSERT INTO llmd (prompt_hash, gen_tokens, n_gen_tokens) VALUES (?, ?, ?)")
      .run(hashOf(prompt), Buffer.from(typeof tokens === "string" ? tokens : JSON.stringify(tokens)), count);
  database.close();
  return { file, table: "llmd", inMemory: false };
}
const lines: string[] = [];
const open = (source: DatasetFile) => openDataset(source, vocabulary, (line) => lines.push(line));
const upTo = (tokens: number) => ({ tokens, exactly: false });
const exactly = (tokens: number) => ({ tokens, exactly: true });
const ids = (text: string) => [...bpe.encode([text], false)];

test("a prompt's hash is that of its IDs as little-endian words of four bytes", () => {
  // Hash of Qwen's IDs of "Hello world!", from a fixture of that tool.
  expect(hashOf([9707, 1879, 0]).toString("base64")).toBe("kNs1tIvxaPIPo2U3hh4dZPrGrzciZ67J0QQ3o/g/i+w=");
  const file = writeFile([
    [[9707, 1879, 0], { Tokens: [8676], Strings: ["short"] }, 1],
    [[1], { Tokens: [1], Strings: ["other"] }, 1],
  ]);
  const dataset = open(file);
  for (const draw of [0, 2 ** 32 - 1])
    expect(dataset.answerTo(Uint32Array.of(9707, 1879, 0), upTo(9), draw)).toBe("short");
  // A view of a longer array.
  expect(dataset.answerTo(Uint32Array.of(5, 1, 5).subarray(1, 2), upTo(9), 0)).toBe("other");
  dataset.close();
});

describe("IDs in the rows", () => {
  test("of this vocabulary are the answer, even if the texts lack characters", () => {
    const dataset = open(writeFile([[[1], { Tokens: ids("Hé, Wörld"), Strings: ["H", ", ", "W", "rld"] }, 4]]));
    expect(lines.at(-1)).toBe('dataset: 1 rows of "llmd"; their ids are those of this server\'s vocabulary');
    expect(dataset.answerTo(Uint32Array.of(1), upTo(9), 0)).toEqual(Uint32Array.from(ids("Hé, Wörld")));
    dataset.close();
  });

  test.each<[string, object]>([
    ["of another vocabulary", { Tokens: [1, 2, 3], Strings: ["Hello", " world"] }],
    ["beyond this vocabulary", { Tokens: [4_000_000], Strings: ["Hello", " world"] }],
    ["under other names", { strings: ["Hello", " world"], numbers: [1, 2] }],
    ["absent", ["Hello", " world"]],
  ])("%s: the texts are the answer", (_, tokens) => {
    const dataset = open(writeFile([[[1], tokens, 2]]));
    expect(lines.at(-1)).toContain("another vocabulary");
    expect(dataset.answerTo(Uint32Array.of(1), upTo(9), 0)).toBe("Hello world");
    dataset.close();
  });
});

describe("the row of a prompt", () => {
  const named = (dataset: ReturnType<typeof open>, prompt: number, room: { tokens: number; exactly: boolean }) => {
    const draws = Array.from({ length: 64 }, (_, i) => i * 2 ** 26);
    return [...new Set(draws.map((draw) => dataset.answerTo(Uint32Array.of(prompt), room, draw)))].sort();
  };
  const rows: Row[] = [
    [[1], ["2"], 2],
    [[1], ["4"], 4],
    [[1], ["4, too"], 4],
    [[1], ["8"], 8],
    [[2], ["16"], 16],
    [[3], ["32"], 32],
  ];

  test.each<[string, number, { tokens: number; exactly: boolean }, string[]]>([
    ["one of its rows that fits", 1, upTo(4), ["2", "4", "4, too"]],
    ["any of its rows", 1, upTo(9), ["2", "4", "4, too", "8"]],
    ["a longer one if none fits", 1, upTo(1), ["2", "4", "4, too", "8"]],
    ["with ignore_eos one of that length", 1, exactly(4), ["4", "4, too"]],
    ["else a longer one", 1, exactly(5), ["8"]],
    ["else a shorter one", 1, exactly(9), ["2", "4", "4, too", "8"]],
    ["without own rows any that fits", 9, upTo(4), ["2", "4", "4, too"]],
    ["else any row", 9, upTo(1), ["16", "2", "32", "4", "4, too", "8"]],
    ["with ignore_eos any of that length", 9, exactly(32), ["32"]],
    ["else any", 9, exactly(5), ["16", "2", "32", "4", "4, too", "8"]],
  ])("%s", (_, prompt, room, answers) => {
    for (const inMemory of [false, true]) {
      const dataset = open({ ...writeFile(rows), inMemory });
      expect(named(dataset, prompt, room)).toEqual(answers);
      dataset.close();
    }
  });

  test("is the same as by a search through all rows", () => {
    const hashes = Array.from({ length: 5 }, (_, i) => hashOf([i]));
    const row = fc.record({ prompt: fc.integer({ min: 0, max: 3 }), tokens: fc.integer({ min: 0, max: 6 }) });
    const asked = fc.record({
      prompt: fc.integer({ min: 0, max: 4 }),
      tokens: fc.integer({ min: 0, max: 7 }),
      exactly: fc.boolean(),
      draw: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    });
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 20 }), asked, (rows, { prompt, draw, ...room }) => {
        const index = new RowIndex(rows.length);
        for (const [at, { prompt, tokens }] of rows.entries()) index.add(at, hashes[prompt]!, tokens);
        index.sort();
        const all = rows.map((row, at) => ({ ...row, at }));
        const own = all.filter((row) => row.prompt === prompt);
        const candidates = own.length > 0 ? own : all;
        const fits = ({ tokens }: { tokens: number }) =>
          room.exactly ? tokens === room.tokens : tokens <= room.tokens;
        const longer = own.filter(({ tokens }) => tokens > room.tokens);
        const chosen = [candidates.filter(fits), longer, candidates].find(({ length }) => length > 0)!;
        expect(chosen.map(({ at }) => at)).toContain(index.rowFor(hashes[prompt]!, room, draw));
      }),
    );
  });
});

describe("a file that cannot be used", () => {
  const raw = (sql: string): string => {
    const file = join(folder, `${files++}.sqlite3`);
    const database = new Database(file);
    database.exec(sql);
    database.close();
    return file;
  };
  const HASH = `X'${"00".repeat(32)}'`;
  const text = (content: string): string => {
    const file = join(folder, `${files++}.txt`);
    writeFileSync(file, content);
    return file;
  };

  test.each<[string, () => string, string]>([
    ["missing", () => join(folder, "nothing"), "cannot be read (ENOENT)"],
    ["a folder", () => folder, "not a file"],
    ["text", () => text("Hello ".repeat(1000)), "not a database that can be read (file is not a database)"],
    ["empty", () => text(""), "the file is empty"],
    ["another table", () => raw("CREATE TABLE other (id INTEGER)"), 'there is no table "llmd"'],
    [
      "another column",
      () => raw("CREATE TABLE llmd (hash BLOB, gen_tokens JSON, n_gen_tokens INTEGER)"),
      'table "llmd" has no column prompt_hash',
    ],
    ["no rows", () => raw(TABLE), 'table "llmd" has no rows'],
    [
      "no hash",
      () => raw(`${TABLE}; INSERT INTO llmd VALUES (7, X'00', '[]', 0)`),
      "row 7: prompt_hash is not the 32 bytes of a SHA-256",
    ],
    [
      "no count",
      () => raw(`${TABLE}; INSERT INTO llmd VALUES (7, ${HASH}, '[]', 'x')`),
      "row 7: n_gen_tokens is not a whole number",
    ],
    [
      "no row short enough",
      () => raw(`${TABLE}; INSERT INTO llmd VALUES (7, ${HASH}, zeroblob(1048577), 1)`),
      'table "llmd" has no rows, 1 left out (longer than 1048576 bytes)',
    ],
  ])("%s", (_, file, why) => {
    for (const inMemory of [false, true]) {
      const opening = () => open({ file: file(), table: "llmd", inMemory });
      expect(opening).toThrow(UserError);
      expect(opening).toThrow(why);
    }
  });

  test("a row of more than 1 MiB is left out", () => {
    const dataset = open(
      writeFile([
        [[1], ["long ".repeat(300_000)], 1],
        [[2], ["short"], 2],
      ]),
    );
    expect(lines.at(-1)).toStartWith('dataset: 1 rows of "llmd", 1 left out (longer than 1048576 bytes); ');
    for (const draw of [0, 2 ** 31, 2 ** 32 - 1])
      expect(dataset.answerTo(Uint32Array.of(1), upTo(1), draw)).toBe("short");
    dataset.close();
  });

  test("a table of any name", () => {
    const file = raw(
      `${TABLE.replace("llmd", '"a ""b"" c"')}; INSERT INTO "a ""b"" c" VALUES (1, ${HASH}, '["x"]', 1)`,
    );
    const dataset = open({ file, table: 'a "b" c', inMemory: false });
    expect(dataset.answerTo(Uint32Array.of(1), upTo(1), 0)).toBe("x");
    dataset.close();
  });

  test("an invalid row is reported, and answers nothing", () => {
    const dataset = open(writeFile([[[1], "[1", 1]]));
    expect(dataset.answerTo(Uint32Array.of(1), upTo(1), 0)).toBeNull();
    expect(lines.at(-1)).toMatch(/^dataset: row 1 cannot be used: /);
    dataset.close();
  });
});

test("any content of a row is an answer or an error", () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (json) => {
      try {
        const { text, ids } = answerOf(json);
        expect(text.isWellFormed() && (ids === null || ids instanceof Uint32Array)).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
    }),
  );
  expect(() => answerOf(null)).toThrow("empty");
  expect(() => answerOf('{"Tokens":[1]}')).toThrow("no list of texts");
});
