/** A model's folder is read like by its own tokenizer, and an invalid one is refused in one line. */

import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../../../src/base/start-errors.ts";
import { nextToken } from "../../../src/text/answers/answers.ts";
import { wordTables } from "../../../src/text/answers/word-tables.ts";
import { folderText, type TextModel } from "../../../src/text/text-model.ts";
import { TemplateRefusal } from "../../../src/text/tokens/chat-template.ts";
import { modelTemplate } from "../../../src/text/tokens/model-template.ts";
import { vocabularyOf } from "../../../src/text/tokens/vocabulary.ts";
import { main } from "../../program.ts";

setDefaultTimeout(30_000);

const MODEL = new URL("../../conformance/model/", import.meta.url).pathname;
const tokens: { special: number[]; bytes_hex: string[] } = JSON.parse(readFileSync(`${MODEL}tokens.json`, "utf8"));

const folders: string[] = [];
const models: TextModel[] = [];
afterAll(() => {
  for (const { encoder } of models) encoder.close();
  for (const folder of folders) rmSync(folder, { recursive: true });
});

/** Copies the recorded model with some files changed. Null removes a file. */
function folderWith(files: Readonly<Record<string, string | object | null>>): string {
  const folder = mkdtempSync(join(tmpdir(), "understudy-model-"));
  folders.push(folder);
  cpSync(MODEL, folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    if (content === null) rmSync(join(folder, name));
    else writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  return folder;
}
async function open(folder: string): Promise<TextModel> {
  const model = await folderText(folder);
  models.push(model);
  return model;
}
const config = JSON.parse(readFileSync(`${MODEL}tokenizer_config.json`, "utf8"));
const tokenizer = JSON.parse(readFileSync(`${MODEL}tokenizer.json`, "utf8"));

test("the recorded model has its tokens' bytes, special tokens, end and template", async () => {
  const { vocabulary, endIds, renderChat, encoder } = await open(MODEL);
  expect(vocabulary.size).toBe(tokens.bytes_hex.length);
  for (const [id, hex] of tokens.bytes_hex.entries())
    expect([id, Buffer.from(vocabulary.bytesOf(id)).toString("hex")]).toEqual([id, hex]);
  const special = tokens.bytes_hex.flatMap((_, id) => (vocabulary.isSpecial(id) ? [id] : []));
  expect(special).toEqual(tokens.special);
  expect([vocabulary.eosId, endIds]).toEqual([1, []]);
  const asked = { role: "user", content: "Hello, world!" };
  expect(renderChat([asked], true, false, null)).toEqual(["<|bos|><|user|>Hello, world!<|end|>\n<|assistant|>"]);
  const open_ = renderChat([asked, { role: "assistant", content: "Well" }], false, true, null);
  expect(open_).toEqual(["<|bos|><|user|>Hello, world!<|end|>\n<|assistant|>Well"]);
  expect([...(await encoder.encode(["Hello, world!"], true, true))]).toEqual([0, 552, 19, 352, 8]);
  expect([...(await encoder.encode(["Hello, world!"], true, false))]).toEqual([552, 19, 352, 8]);
  expect([...(await encoder.encode(["<|eos|>é"], true, false))].slice(0, 1)).toEqual([1]);
});

test("of several ends of sequence the tokenizer's is the model's, and the others also end an answer", async () => {
  const { vocabulary, endIds } = await open(folderWith({ "generation_config.json": { eos_token_id: [7, 1, 2] } }));
  expect([vocabulary.eosId, endIds]).toEqual([1, [7, 2]]);
  const { eos_token: _, ...unnamed } = config;
  const other = await open(
    folderWith({ "tokenizer_config.json": unnamed, "generation_config.json": { eos_token_id: [7, 2] } }),
  );
  expect([other.vocabulary.eosId, other.endIds]).toEqual([7, [2]]);
});

test("SentencePiece's tokens have spaces for marks, and single bytes", async () => {
  const vocab = Object.fromEntries(
    ["<unk>", "<s>", "</s>", "<0x0A>", "<0xE4>", "▁", "▁the", "he", "▁t", "t", "h", "e", "."].map((text, id) => [
      text,
      id,
    ]),
  );
  const { encoder, vocabulary, blanks } = await open(
    folderWith({
      "config.json": {},
      "tokenizer_config.json": { eos_token: { content: "</s>" } },
      "tokenizer.json": {
        post_processor: null,
        pre_tokenizer: null,
        added_tokens: ["<unk>", "<s>", "</s>"].map((content, id) => ({ id, content, special: true })),
        normalizer: { type: "Sequence", normalizers: [{ type: "Replace", pattern: { String: " " }, content: "▁" }] },
        model: {
          type: "BPE",
          vocab,
          merges: [
            ["h", "e"],
            ["▁", "t"],
            ["▁t", "he"],
          ],
          byte_fallback: true,
          unk_token: "<unk>",
        },
        decoder: { type: "Sequence", decoders: [{ type: "ByteFallback" }, { type: "Fuse" }] },
      },
    }),
  );
  expect(blanks).toBe(true);
  expect([6, 3, 4, 2].map((id) => Buffer.from(vocabulary.bytesOf(id)).toString("latin1"))).toEqual([
    " the",
    "\n",
    "ä",
    "</s>",
  ]);
  expect(vocabulary.piece(4)).toBeUndefined();
  expect([...(await encoder.encode([" the the."], true, false))]).toEqual([6, 6, 12]);
});

test("default text consists of the vocabulary's own words", () => {
  const utf8 = new TextEncoder();
  const say = (words: readonly string[]) => {
    const vocabulary = vocabularyOf(
      words.map((word) => utf8.encode(word)),
      new Set([0]),
      0,
    );
    const tables = wordTables(vocabulary);
    return Array.from({ length: 16 }, (_, at) => words[nextToken(tables, 5, at)]).join("");
  };
  expect(say(["<end>", " a", " cat", " The", ".", "!"])).toBe(
    " The cat cat cat cat cat cat. The cat cat cat cat cat cat.",
  );
  expect(say(["<end>", "x"])).toBe("x".repeat(16));
  expect(say(["<end>"])).toBe("<end>".repeat(16));
});

test("a template gets its variables, and its error refuses the request", () => {
  const template = (chatTemplate: string | null) => modelTemplate({ chatTemplate, specials: { bos_token: "<s>" } });
  const call = { id: "c", type: "function", function: { name: "f", arguments: '{"a": 1}' } };
  const render = template(
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.name }}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.a }}{% endif %};{% endfor %}{{ tools | length if tools else 0 }}",
  );
  expect(
    render(
      [
        { role: "user", content: "x", name: "bob" },
        { role: "assistant", content: null, toolCalls: [call] },
      ],
      true,
      false,
      [{}],
    ),
  ).toEqual(["<s>user:bob;assistant:1;1"]);
  const names = template("{{ enable_thinking }}{{ documents[0].text if documents }}{{ tools is none }}");
  expect(names([], true, false, null, { enable_thinking: false, documents: [{ text: "d" }] })).toEqual(["falsedtrue"]);
  expect(() => template("{{ raise_exception('no system') }}")([], true, false, null)).toThrow(
    new TemplateRefusal("no system"),
  );
  expect(() => template(null)([], true, false, null)).toThrow(TemplateRefusal);
});

test("messages of developers become the first system message if the template does not know developers", () => {
  const each = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  const [plain, knowing] = [each, `${each}{# 'developer' #}`].map((chatTemplate) =>
    modelTemplate({ chatTemplate, specials: {} }),
  );
  const said = (...list: [string, string][]) => list.map(([role, content]) => ({ role, content }));
  const spoken = said(["user", "a"], ["developer", "b"], ["system", "c"], ["assistant", "d"]);
  expect(plain!(spoken, true, false, null)).toEqual(["system:b\n\nc;user:a;assistant:d;"]);
  expect(knowing!(spoken, true, false, null)).toEqual(["user:a;developer:b;system:c;assistant:d;"]);
  expect(plain!(said(["developer", "b"], ["user", "a"]), true, false, null)).toEqual(["system:b;user:a;"]);
  expect(plain!(said(["user", "a"], ["system", "c"]), true, false, null)).toEqual(["user:a;system:c;"]);
});

const { eos_token: _, ...endless } = config;
test.each([
  ["no such folder", "/nowhere", "tokenizer.json cannot be read (ENOENT); a folder with tokenizer.json is needed"],
  ["one file is missing", { "tokenizer_config.json": null }, "tokenizer_config.json cannot be read (ENOENT)"],
  ["not JSON", { "tokenizer.json": "{" }, "tokenizer.json is not JSON: "],
  ["not an object", { "tokenizer.json": "[]" }, "tokenizer.json is not a JSON object"],
  [
    "no vocabulary",
    { "tokenizer.json": { decoder: { type: "ByteLevel" } } },
    'tokenizer.json has no "model" with a "vocab"',
  ],
  [
    "added tokens that are none",
    { "tokenizer.json": { ...tokenizer, added_tokens: [{ content: "x" }] } },
    'tokenizer.json: "added_tokens" is no list of {id, content, special}',
  ],
  [
    "tokens of an unknown kind",
    { "tokenizer.json": { ...tokenizer, decoder: { type: "WordPiece" }, pre_tokenizer: { type: "BertPreTokenizer" } } },
    "tokenizer.json: tokens of this kind (WordPiece, BertPreTokenizer) are not supported; ByteLevel, ByteFallback and Metaspace are",
  ],
  [
    "no end of sequence",
    { "tokenizer_config.json": endless, "generation_config.json": null, "config.json": null },
    'no end of sequence: tokenizer_config.json needs an "eos_token" that is in the vocabulary',
  ],
  [
    "an unknown normalizer",
    { "tokenizer.json": { ...tokenizer, normalizer: { type: "Magic" } } },
    "tokenizer.json cannot be used: ",
  ],
  [
    "a template that is none",
    { "tokenizer_config.json": { ...config, chat_template: "{% for %}" } },
    "the chat template cannot be read: ",
  ],
] as const)("refused: %s", async (_, files, wanted) => {
  const folder = typeof files === "string" ? files : folderWith(files);
  const failure = await open(folder).then(
    () => null,
    (error: Error) => error,
  );
  expect(failure).toBeInstanceOf(UserError);
  expect(failure!.message).toStartWith(wanted);
  expect(failure!.message).not.toContain("\n");
});
test.each([
  ["--tokenizer", "/nowhere", "tokenizer.json cannot be read (ENOENT)"],
  ["--script", "/nowhere", "cannot be read (ENOENT)"],
])("understudy serve %s of nothing ends with 2 and one line", async (flag, path, wanted) => {
  const child = Bun.spawn([process.execPath, main, "serve", "--port", "0", flag, path], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toStartWith(`understudy serve: ${flag} ${path}: ${wanted}`);
  expect(err.trimEnd().split("\n")).toHaveLength(1);
});
