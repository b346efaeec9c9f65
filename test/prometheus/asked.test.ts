/** Would the tests notice: an answer where there must be none, none where there must be one, what began to work? */
import { expect, test } from "bun:test";
import { type Asked, promql, wrong } from "./asked.ts";
import type { Sample } from "./prometheus.ts";

const one = (value: number): Sample[] => [{ metric: {}, value }];
const asked = (must: Asked["must"], range?: Asked["range"]): Asked => ({
  id: "x",
  expr: "x",
  must,
  ...(range ? { range } : {}),
});

test.each<[what: string, asked: Asked, waiting: boolean, answer: readonly Sample[], wrong: string | undefined]>([
  ["filled", asked("filled"), false, one(0), undefined],
  ["empty, must be filled", asked("filled"), false, [], "must not be empty"],
  ["nothing but NaN", asked("filled"), false, one(Number.NaN), "must not be NaN"],
  ["NaN beside a number", asked("filled"), false, [...one(Number.NaN), ...one(1)], undefined],
  ["empty, must be empty", asked("empty"), false, [], undefined],
  ["filled, must be empty", asked("empty"), false, one(1), "must be empty"],
  ["either", asked("either"), false, [], undefined],
  ["in its range", asked("filled", [0, 1]), false, one(1), undefined],
  ["above its range", asked("filled", [0, 1]), false, one(1.1), "1.1 is outside [0,1]"],
  ["below its range", asked("filled", [0, null]), false, one(-1), "-1 is outside [0,null]"],
  ["an alert outside its range", asked("either", [0, 1]), false, one(2), "2 is outside"],
  ["not there yet", asked("filled"), true, [], undefined],
  ["there by now", asked("filled"), true, one(1), "it works now: take it out of not-yet.json"],
])("%s", (_, question, waiting, answer, what) => {
  const found = wrong(question, waiting, answer);
  expect(found === undefined ? undefined : found.slice(0, what?.length)).toBe(what!);
});

test("Grafana's variables and label_values", () => {
  expect(promql("rate(x[$__rate_interval])")).toBe("rate(x[1m])");
  expect(promql("label_values(model_name)")).toBe('group by (model_name) ({model_name!=""})');
  expect(promql('label_values(x{a="b"}, model)')).toBe('group by (model) (x{a="b"})');
  expect(() => promql("x[$unknown]")).toThrow("$unknown is not known");
});
