/** Text is sent exactly when vLLM sends it, however its bytes are split into tokens. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Detokenizer } from "../../../src/text/tokens/detokenizer.ts";
import { vocabularyOf } from "../../../src/text/tokens/vocabulary.ts";

const utf8 = new TextEncoder();
const END = 0;

/** Decodes tokens of a vocabulary of `<|end|>` (special) and these tokens, with IDs from 1. Returns the text of each. */
function pieces(tokens: readonly (string | number[])[], skipSpecial = true, ids = tokens.map((_, at) => at + 1)) {
  const bytes = tokens.map((token) => (typeof token === "string" ? utf8.encode(token) : Uint8Array.from(token)));
  const vocabulary = vocabularyOf([utf8.encode("<|end|>"), ...bytes], new Set([END]), END);
  const detokenizer = new Detokenizer(vocabulary, skipSpecial);
  return { texts: ids.map((id) => detokenizer.push(id)), idle: detokenizer.idle };
}

const lossy = (bytes: readonly number[]) =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));

describe("detokenizer", () => {
  test("a code point comes with the token that completes it", () => {
    expect(pieces(["a", [0xf0, 0x9f], [0x98], [0x80], "b"])).toEqual({ texts: ["a", "", "", "😀", "b"], idle: true });
    expect(
      pieces([
        [0xe4, 0xbd],
        [0xa0, 0xe5],
        [0xa5, 0xbd, 0x21],
      ]).texts,
    ).toEqual(["", "", "你好!"]);
  });

  test("invalid bytes become U+FFFD with the text that follows (recording chat-invalid-bytes)", () => {
    expect(pieces(["a", [0xf0], " ", "b"]).texts).toEqual(["a", "", "\ufffd ", "b"]);
    expect(pieces([[0xff], [0xfe], [0xe4, 0xb8], "x"]).texts).toEqual(["", "", "", "\ufffd\ufffd\ufffdx"]);
  });

  test("a real U+FFFD waits for the next text too", () => {
    expect(pieces(["\ufffd", "x", "y\ufffd"])).toEqual({ texts: ["", "\ufffdx", ""], idle: false });
  });

  test("special tokens are skipped without ending an incomplete code point, or written", () => {
    const tokens = [[0xc3], [0xa9]];
    expect(pieces(tokens, true, [1, END, 2]).texts).toEqual(["", "", "é"]);
    expect(pieces(tokens, false, [1, END, 2, 1, 2]).texts).toEqual(["", "\ufffd<|end|>", "", "", "\ufffdé"]);
  });

  test("a byte order mark is text", () => {
    expect(pieces(["\ufeffa", [0xef], [0xbb, 0xbf]]).texts).toEqual(["\ufeffa", "", "\ufeff"]);
  });

  test("for any bytes and tokens, the sent text is all text so far, unless that ends in U+FFFD", () => {
    const part = fc.oneof(
      fc.string({ unit: "binary" }).map((text) => [...utf8.encode(text)]),
      fc.string({ unit: "grapheme" }).map((text) => [...utf8.encode(text)]),
      fc.array(fc.constantFrom(0xe0, 0xed, 0xf0, 0xf4, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xff, 0x41)),
      fc.array(fc.nat(255)),
    );
    const cut = (bytes: number[], sizes: number[]) => {
      const tokens: number[][] = [];
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const size = sizes[turn % sizes.length]!;
        tokens.push(bytes.slice(at, at + size));
        at += size;
      }
      return tokens;
    };
    fc.assert(
      fc.property(fc.array(part), fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }), (parts, sizes) => {
        const tokens = cut(parts.flat(), sizes);
        const { texts } = pieces(tokens);
        let sent = "";
        tokens.forEach((_, at) => {
          sent += texts[at];
          const all = lossy(tokens.slice(0, at + 1).flat());
          if (all.endsWith("\ufffd")) expect(texts[at]).toBe("");
          else expect(sent).toBe(all);
        });
      }),
    );
  });
});
