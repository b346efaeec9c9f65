/** Tests custom laws, and that a misspelt option or scrape field is refused with a reason. */
import { expect, test } from "bun:test";
import { atMost, type CheckOptions, checkScrapes, equal, law, term } from "../../../src/tools/check/index.ts";

const page = (sent: number, open: number, done: number) =>
  `# TYPE app_sent_total counter\napp_sent_total ${sent}\n# TYPE app_open gauge\napp_open ${open}\n# TYPE app_done_total counter\napp_done_total ${done}\n`;

const whole = law({
  id: "APP1",
  sentence: "what was sent is open or done",
  means: "A request was lost.",
  check: ({ now }) =>
    equal(now.get("app_sent_total"), term("open + done", now.get("app_open").value + now.get("app_done_total").value)),
});
const slow = law({
  id: "APP2",
  sentence: "at most one more in each scrape",
  means: "A burst.",
  severity: "W",
  needs: ["two scrapes"],
  check: (c) => atMost(c.delta("app_sent_total"), term("1", 1)),
});
const check = (scrapes: string[], options: CheckOptions = {}) =>
  checkScrapes(scrapes, { laws: [whole, slow], only: ["APP1", "APP2"], ...options });

test("a custom law is reported as held, violated or not checkable, with errors and warnings apart", () => {
  const fine = check([page(1, 1, 0), page(2, 1, 1)]);
  expect(fine.laws.map(({ id, verdict }) => [id, verdict])).toEqual([
    ["APP1", "held"],
    ["APP2", "held"],
  ]);
  expect([fine.errors, fine.warnings, fine.violated]).toEqual([[], [], []]);
  const lost = check([page(1, 1, 0), page(2, 1, 0)]);
  expect(lost.errors.map(({ id }) => id)).toEqual(["APP1"]);
  expect(lost.errors[0]!.violations[0]).toMatchObject({
    left: { text: "app_sent_total", value: 2 },
    right: { value: 1 },
  });
  const burst = check([page(1, 1, 0), page(4, 3, 1)]);
  expect([burst.errors, burst.warnings.map(({ id }) => id)]).toEqual([[], ["APP2"]]);
  expect(check(["# TYPE other gauge\nother 1\n"]).laws.map(({ verdict }) => verdict)).toEqual(
    Array(2).fill("not checkable"),
  );
});

test.each<[unknown, object, string]>([
  [[page(1, 1, 0)], { only: ["V999"] }, 'only: unknown law "V999"; accepted are G01,'],
  [[page(1, 1, 0)], { only: [] }, "only: an empty list judges no law"],
  [[page(1, 1, 0)], { only: "V05" }, 'only: must be a list of ids, such as ["V05"], not "V05"'],
  [[page(1, 1, 0)], { onyl: ["V05"] }, "options: unknown field onyl; accepted are parameters, clean, only,"],
  [[page(1, 1, 0)], { parameters: { maxNumSeq: 1 } }, "parameters: unknown field maxNumSeq; accepted are maxNumSeqs,"],
  [[page(1, 1, 0)], { laws: [whole, whole] }, "laws: id APP1 occurs twice"],
  ["a 1\n", {}, 'scrapes: must be a list, such as [text], not "a 1\\n"'],
  [[{ txt: "a 1\n" }], {}, "scrapes[0]: unknown field txt; accepted are text, atS,"],
  [[{ text: 5 }], {}, "scrapes[0].text: must be a page as text or bytes, not 5"],
  [[{ text: "a 1\n", truth: { request: 1 } }], {}, "scrapes[0].truth: unknown field request; accepted are requests,"],
  [[null], {}, "scrapes[0]: must be an object with text,"],
])("%j with %j is refused with a reason", (scrapes, options, message) => {
  const act = () => checkScrapes(scrapes as string[], options as CheckOptions);
  expect(act).toThrow(TypeError);
  expect(act).toThrow(message);
});
