/** Checks that the drawing of comments finds every comment once and repeats with its seed. */
import { expect, test } from "bun:test";
import { commentsOf, drawn } from "../../scripts/draw-comments.ts";

const CODE = [
  "/** Header of the file. */",
  'const url = "http://localhost"; // trailing comment',
  "// first line",
  "// second line",
  "const pattern = /[/*]/; /* in one line */",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is code.
  "const text = `// not a comment ${/* inside */ 1} /* nor this */`;",
  "// biome-ignore lint/style/x: an order to a tool",
  "  /**",
  "   * Two lines",
  "   * of a doc comment.",
  "   */",
].join("\n");

test("each comment is found once, with its first line and without delimiters", () => {
  expect(commentsOf("src/a.ts", CODE).map(({ line, text }) => [line, text])).toEqual([
    [1, "Header of the file."],
    [2, "trailing comment"],
    [3, "first line\nsecond line"],
    [5, "in one line"],
    [6, "inside"],
    [8, "Two lines\nof a doc comment."],
  ]);
});

test("the same seed draws the same items, each at most once", () => {
  const items = Array.from({ length: 30 }, (_, at) => at);
  expect(drawn(items, 10, 7)).toEqual(drawn(items, 10, 7));
  expect(drawn(items, 10, 7)).not.toEqual(drawn(items, 10, 8));
  expect(drawn(items, 40, 7).toSorted((a, b) => a - b)).toEqual(items);
});
