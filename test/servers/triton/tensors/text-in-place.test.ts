/** Tests that long JSON texts that are decoded in place give the texts and errors of the parser. */
import { expect, test } from "bun:test";
import { atOnce } from "../../../../src/base/pieces.ts";
import { seeded } from "../../../../src/base/random.ts";
import { LongText } from "../../../../src/servers/triton/tensors/json-nodes.ts";
import { parseRapidJson } from "../../../../src/servers/triton/tensors/rapid-json.ts";
import { rapidJsonInPieces } from "../../../../src/servers/triton/tensors/rapid-json-pieces.ts";

const GOOD = ["\\n", "\\t", '\\"', "\\\\", "\\/", "\\u0041", "\\u00e9", "\\u4e2d", "\\ud83d\\ude00", "é"];
const BAD = ["\\x", "\\u12g4", "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\n", "\0", "\\"];
const WINDOW = 65_536;

/** Returns the text, or the message of the error. */
function read(parse: () => unknown): string {
  try {
    const value = parse();
    return value instanceof LongText ? value.text : `${value}`;
  } catch (error) {
    return `${error}`;
  }
}

test.each(["good", "bad"])("texts with %s escapes are read alike, also if a piece ends inside an escape", (kind) => {
  const drawn = seeded(kind.length);
  const random = () => drawn() / 2 ** 32;
  const draw = (list: readonly string[]) => list[Math.floor(random() * list.length)]!;
  for (let round = 0; round < 60; round++) {
    let text = "";
    for (let length = 0; length < 3 * WINDOW; ) {
      const plain = "p".repeat(Math.floor(random() * 2 * WINDOW));
      const run = Array.from({ length: 8 }, () => draw(GOOD)).join("");
      text += plain + run;
      length += plain.length;
    }
    if (kind === "bad") text += draw(BAD) + draw(["", "more"]);
    const body = Buffer.from(`"${text}${kind === "bad" && round % 3 === 0 ? "" : '"'}`);
    const expected = read(() => parseRapidJson(body));
    expect(read(() => atOnce(rapidJsonInPieces(body))) === expected).toBe(true);
  }
});

test("a long text takes no memory besides its body", () => {
  const body = Buffer.from(`["${"plain \\n".repeat(400_000)}"]`);
  const [text] = atOnce(rapidJsonInPieces(body)) as unknown as [LongText];
  expect(text.bytes.buffer).toBe(body.buffer);
});
