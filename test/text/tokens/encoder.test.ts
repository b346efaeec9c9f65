/** The encoder returns gpt-tokenizer's IDs in the order of its calls, and survives failures of its thread. */
import { afterAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { encode as oracle, setMergeCacheSize } from "gpt-tokenizer/encoding/o200k_harmony";
import { sayableText } from "../../../src/servers/openai/overrides/orders.ts";
import type { Structure } from "../../../src/text/grammar/structure.ts";
import { BpeEncoder } from "../../../src/text/tokens/bpe.ts";
import { Detokenizer } from "../../../src/text/tokens/detokenizer.ts";
import { createEncoder } from "../../../src/text/tokens/encoder.ts";
import type { EncoderAnswer } from "../../../src/text/tokens/encoder-worker.ts";
import { loadVocabulary } from "../../../src/text/tokens/vocabulary.ts";
import { packTable } from "../../../src/text/tokens/vocabulary-table.ts";
import { times } from "../../size.ts";

const path = new URL("../../../build/vocabulary.bin", import.meta.url);
const file = new Uint8Array(readFileSync(path));
const bpe = new BpeEncoder(file);
setMergeCacheSize(1000);
const plain = { disallowedSpecial: new Set<string>() };
// gpt-tokenizer 4.0.0 lacks tokens that start with a byte order mark. A test below compares those with tiktoken's own file.
const same = (text: string) =>
  text.includes("\ufeff") || expect([...bpe.encode([text], false)]).toEqual(oracle(text, plain));

test("the start of a long ordered text has the same IDs as in the whole text", () => {
  const most = loadVocabulary(file).maxTokenBytes;
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", minLength: 1 }), fc.nat(20), (part, tokens) => {
      const text = part.repeat(20_000);
      const said = sayableText(text, tokens, most);
      expect(said.length).toBeLessThanOrEqual(tokens * most + 4096);
      expect(said.isWellFormed()).toBe(text.isWellFormed());
      const ids = (some: string) => [...bpe.encode([some], false)].slice(0, tokens);
      expect(ids(said)).toEqual(ids(text));
    }),
    { numRuns: times(20) },
  );
});

describe("IDs", () => {
  test("of prose in many scripts, code, numbers, white space, emoji", () => {
    for (const text of [
      "",
      " ",
      "Hello, world! It's 2024-05-17; we'll pay €1234567.89, they'VE said.",
      "   leading and trailing   \n\n\n\t\tindented\r\nlines  \n",
      "Ünïcödé naïve café Straße İstanbul ǅungla ʰʰ e\u0301",
      "日本語のテキストと漢字、かな。中文文本。한국어 텍스트",
      "Привет мир. Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया. สวัสดีชาวโลก",
      "😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🦔𝄞𠮷",
      "const x = (a, b) => { return a?.b ?? `$` + c; } // ====----****////\n",
      "\u0000\u001b\u007f\u0085\u00a0\u2028\ufffd\ud800",
      "<|start|>user<|message|>hi<|end|>",
    ]) {
      same(text);
    }
  });

  test("of real files", () => {
    for (const name of new Bun.Glob("*.ts").scanSync(new URL("../../../src/text", import.meta.url).pathname)) {
      same(readFileSync(new URL(`../../../src/text/${name}`, import.meta.url), "utf8"));
    }
    same(readFileSync(new URL("../../../LICENSE", import.meta.url), "utf8"));
  });

  test("of long pieces, which are merged by another algorithm than short ones", () => {
    for (const unit of ["a", " ", "=-", "漢", "字仮", "\n", "qzxj", "ab\u0301", "😀", "AAAb"]) same(unit.repeat(300));
    const letters = fc.string({ unit: fc.constantFrom(..."etaoinshrdlu"), minLength: 40, maxLength: 400 });
    fc.assert(fc.property(letters, (text) => void same(text)));
  });

  test("of any text", () => {
    const unit = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(..." \n\t\r.,'/-_0123aAbBeEsStT") },
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
      fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
      fc.constantFrom("'s", "'LL", "\ud800", "漢", "é", "ß", "ʰ", "ǅ", "\u0301", "the", " hello", "<|end|>"),
    );
    fc.assert(fc.property(fc.string({ unit, maxLength: 80 }), (text) => void same(text)));
  });

  test("equal tiktoken's ranks for each single token, also with byte order marks", () => {
    const list = readFileSync(fileURLToPath(import.meta.resolve("gpt-tokenizer/data/o200k_base.tiktoken")), "latin1");
    const vocabulary = loadVocabulary(file);
    const lines = list.trimEnd().split("\n");
    expect(lines.length).toBe(199998);
    for (const line of lines) {
      const [base64, rank] = line.split(" ") as [string, string];
      if (!Buffer.from(base64, "base64").equals(vocabulary.bytesOf(Number(rank))))
        throw new Error(`id ${rank} differs`);
    }
    expect([...bpe.encode(["\ufeff"], false)]).toEqual([5574]);
    expect([...bpe.encode(["\ufeffusing"], false)]).toEqual([9251]);
  });

  test("decode to the text again", () => {
    const vocabulary = loadVocabulary(file);
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const detokenizer = new Detokenizer(vocabulary, true);
        let decoded = "";
        for (const id of bpe.encode([`${text}.`], false)) decoded += detokenizer.push(id);
        expect(decoded).toBe(`${text}.`);
      }),
    );
  });

  test("of a piece of 500 KB take less than quadratic time", () => {
    expect(bpe.encode(["漢".repeat(170_000)], false).length).toBe(170_000);
    expect(bpe.encode([" ".repeat(500_000)], false).length).toBe(3907);
  });
});

test("a piece of more than 1,048,576 characters is cut between characters, and takes little memory", async () => {
  const program = `
    import { readFileSync } from "node:fs";
    import { BpeEncoder } from ${JSON.stringify(new URL("../../../src/text/tokens/bpe.ts", import.meta.url).href)};
    const bpe = new BpeEncoder(new Uint8Array(readFileSync(${JSON.stringify(path.pathname)})));
    const text = "x" + "é".repeat(8_000_000);
    bpe.encode([text.slice(0, 1000)], false);
    const before = process.resourceUsage().maxRSS;
    const { length } = bpe.encode([text], false);
    console.log(JSON.stringify([length, (process.resourceUsage().maxRSS - before) * 1024]));`;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" });
  const [count, taken] = JSON.parse(await new Response(child.stdout).text());
  expect(count).toBe(8_000_001);
  // In one piece, merging takes 24 times the text's 16 MB of UTF-8. Cut, it takes 10 times.
  expect(taken).toBeLessThan(16 * 16e6);
  const text = `x${"😀".repeat(524_300)}`;
  const detokenizer = new Detokenizer(loadVocabulary(file), false);
  expect(Array.from(bpe.encode([text], false), (id) => detokenizer.push(id)).join("")).toBe(text);
}, 30_000);

describe("parts", () => {
  const text = "a<|start|>b<|reserved_200013|><|start|";

  test("special tokens in text count only if allowed, and numbers are IDs", () => {
    expect([...bpe.encode([text], false)]).toEqual(oracle(text, plain));
    const [a, b] = [oracle("a"), oracle("b")];
    expect([...bpe.encode([text], true)]).toEqual([...a, 200006, ...b, 200013, ...oracle("<|start|", plain)]);
    expect([...bpe.encode([200006, "a", 200008, "", "b"], false)]).toEqual([200006, ...a, 200008, ...b]);
    expect(bpe.encode([], false).length).toBe(0);
  });

  test("of special tokens at the same place the longest is taken", () => {
    const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
    const specials = ["<s>", "<s>>", "[INST]"].map((spelling) => new TextEncoder().encode(spelling));
    const own = new BpeEncoder(packTable([...bytes, ...specials], new Set([256, 257, 258]), 256, "[^]"));
    expect([...own.encode(["<s>><s>x[INST]<s"], true)]).toEqual([257, 256, 120, 258, 60, 115]);
  });
});

describe("thread", () => {
  const inlineBpe = new BpeEncoder(file);
  const encoder = createEncoder(file);
  afterAll(() => encoder.close());
  const script = (source: string) => new URL(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));

  test("returns the encoder's IDs, in the order of the calls", async () => {
    const prompts = Array.from({ length: 50 }, (_, at) => [
      200006,
      at % 7 === 0 ? "word ".repeat(5000) : `prompt ${at}`,
    ]);
    const order: number[] = [];
    const answers = await Promise.all(
      prompts.map(async (parts, at) => {
        const ids = await encoder.encode(parts, false);
        order.push(at);
        return ids;
      }),
    );
    expect(order).toEqual(prompts.map((_, at) => at));
    for (const [at, ids] of answers.entries()) expect(ids).toEqual(bpe.encode(prompts[at]!, false));
  });

  test("encodes short texts at once after the first answer, with the same IDs", async () => {
    const fresh = createEncoder(file);
    const parts = [200006, "a short text, <|end|> and é", 200007];
    expect(fresh.short!(parts, false)).toBeNull();
    const ids = await fresh.encode(parts, false);
    expect(fresh.short!(parts, false)).toEqual(ids);
    expect(fresh.short!(["<|end|>"], true)).toEqual(await fresh.encode(["<|end|>"], true));
    expect(fresh.short!(["x".repeat(257)], false)).toBeNull();
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 100 }), fc.boolean(), (text, special) => {
        expect(fresh.short!([text], special)).toEqual(inlineBpe.encode([text], special));
      }),
    );
    fresh.close();
    expect(fresh.short!(parts, false)).toBeNull();
  });

  test("encodes UTF-8 like text, and takes its memory", async () => {
    const encoder = createEncoder(file);
    const bytes = new TextEncoder().encode("Grüße <|start|>, 😀, ");
    const invalid = Uint8Array.from([...bytes, 0xff, 0x41]);
    const text = "Grüße <|start|>, 😀, \ufffdA";
    const given = invalid.slice();
    expect(await encoder.encodeUtf8!(given, true, true)).toEqual(await encoder.encode([text], true, true));
    expect(given.length).toBe(0);
    encoder.close();
  });

  test("runs at low priority if the system supports that", async () => {
    await encoder.encode(["warm"], false);
    if (process.platform !== "linux") return;
    const nice = (task: string | number) => {
      const stat = readFileSync(`/proc/self/task/${task}/stat`, "utf8");
      return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
    };
    const all = readdirSync("/proc/self/task").flatMap((task) => {
      try {
        return [nice(task)];
      } catch {
        // A thread of the compiler, which ended meanwhile.
        return [];
      }
    });
    expect(all).toContain(Math.max(10, nice(process.pid)!));
  });

  test("if the thread dies, its orders are rejected, and the next call starts another", async () => {
    const mortal = createEncoder(
      file,
      null,
      script("self.onmessage = ({ data }) => { if (Array.isArray(data)) process.exit(3); }"),
    );
    for (let life = 0; life < 2; life++) {
      const results = await Promise.allSettled([mortal.encode(["a"], false), mortal.encode(["b"], false)]);
      expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    }
    mortal.close();
  });

  test("orders that arrive while a new thread reads the folder are answered in order", async () => {
    const worker = new Worker(new URL("../../../src/text/tokens/encoder-worker.ts", import.meta.url), {
      type: "module",
    });
    const answers: EncoderAnswer[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    worker.onmessage = ({ data }: MessageEvent<EncoderAnswer>) => {
      if (answers.push(data) === 5) resolve();
    };
    const folder = fileURLToPath(new URL("../../conformance/model", import.meta.url));
    const structure: Structure = { kind: "choice", choices: ["yes"] };
    const orders = [
      { id: 0, folder },
      [1, false, false, "a"],
      { id: 2, structure, seeds: [1] },
      [3, false, false, "b"],
    ];
    for (const order of [...orders, [4, false, false, "c"]]) worker.postMessage(order);
    await promise;
    worker.terminate();
    expect(answers.map((answer) => [answer.id, "failed" in answer])).toEqual([0, 1, 2, 3, 4].map((id) => [id, false]));
  });

  test("a second answer, or one without an order, settles no other prompt", async () => {
    const twice = createEncoder(
      file,
      null,
      script(`self.onmessage = ({ data }) => {
        if (!Array.isArray(data)) return;
        const [id, , , text] = data;
        for (const answered of [id, id, 99]) postMessage({ id: answered, ids: Uint32Array.of(text.length) });
      };`),
    );
    for (const text of ["a", "bb", "ccc"]) expect([...(await twice.encode([text], false))]).toEqual([text.length]);
    const both = await Promise.all([twice.encode(["dddd"], false), twice.encode(["eeeee"], false)]);
    expect(both.map(([length]) => length)).toEqual([4, 5]);
    twice.close();
  });

  test("if the thread fails to load or throws, its orders are rejected", async () => {
    for (const source of ["throw new Error('no')", "self.onmessage = () => { throw new Error('no') }"]) {
      const broken = createEncoder(file, null, script(source));
      await expect(broken.encode(["a"], false)).rejects.toThrow("encoder thread");
      broken.close();
    }
    await expect(createEncoder(file, null, new URL("file:///missing.ts")).encode(["a"], false)).rejects.toThrow(
      "encoder thread",
    );
  });

  test("only the prompt that cannot be encoded is rejected", async () => {
    const wrong = createEncoder(file);
    const [bad, good] = await Promise.allSettled([
      wrong.encode([null as unknown as string], false),
      wrong.encode(["a"], false),
    ]);
    expect([bad.status, good.status]).toEqual(["rejected", "fulfilled"]);
    wrong.close();
  });

  test("close rejects open orders and later calls", async () => {
    const closing = createEncoder(file);
    const owed = closing.encode(["a"], false);
    closing.close();
    await expect(owed).rejects.toThrow("closed");
    await expect(closing.encode(["a"], false)).rejects.toThrow("closed");
  });

  test("keeps the process alive only until its last answer", async () => {
    const program = `
      import { createEncoder } from ${JSON.stringify(new URL("../../../src/text/tokens/encoder.ts", import.meta.url).href)};
      const encoder = createEncoder(new Uint8Array(await Bun.file(new URL(${JSON.stringify(path.href)})).arrayBuffer()));
      console.log((await encoder.encode(["hello world"], false)).join());
      encoder.encode(["hello"], false).then((ids) => console.log(ids.join()));`;
    const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" });
    expect(await new Response(child.stdout).text()).toBe("24912,2375\n24912\n");
    expect(await child.exited).toBe(0);
  });
});
