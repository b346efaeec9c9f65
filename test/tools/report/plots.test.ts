/** Tests that plots of a report are readable for unusual runs. */
import { expect, test } from "bun:test";
import { html } from "../../../src/tools/report/index.ts";
import { DIGIT_PX, PADDING, plotNumber } from "../../../src/tools/report/page/format.ts";
import { read, record, result } from "./reader.ts";

test("prompts of about equal length: TTFT is plotted by send time", async () => {
  const records = Array.from({ length: 5 }, (_, i) => record(4 - i, 5, { inputTokens: 500 + 4 * i }));
  const { plot, text } = await read(html(result(), records));
  const { title, note, x, data } = plot("scatter");
  expect([title, x.label, data[0]]).toEqual([
    "TTFT by time of sending",
    "seconds",
    [0.001, 0.011, 0.021, 0.031, 0.041],
  ]);
  expect(note).toBe("Each dot is a request: all 5 requests with an answer. All prompts have 500 to 516 tokens.");
  expect(text).toContain("TTFT by time of sending");
  const same = await read(html(result(), [record(0), record(1, 5, { inputTokens: 100 })]));
  expect(same.plot("scatter").note).toContain("All prompts have 100 tokens.");
});

test("the label of the last tick fits on the right side", () => {
  for (const value of [16_384, 50_000, 1_000_000]) {
    expect(PADDING[1]).toBeGreaterThanOrEqual((plotNumber(value).length * DIGIT_PX) / 2);
  }
});
