/**
 * Tests the judgement of query results: values where there must be none, none where there must be some, and queries that
 * began to work.
 */
import { expect, test } from "bun:test";
import { type MetricsQuery, promql, wrong } from "./asked.ts";
import type { Sample } from "./prometheus.ts";

const oneSample = (value: number): Sample[] => [{ metric: {}, value }];
const query = (must: MetricsQuery["must"], range?: MetricsQuery["range"]): MetricsQuery => ({
  id: "x",
  expr: "x",
  must,
  ...(range ? { range } : {}),
});

test.each<[name: string, query: MetricsQuery, waiting: boolean, answer: readonly Sample[], wrong: string | undefined]>([
  ["has a value", query("filled"), false, oneSample(0), undefined],
  ["empty, must be filled", query("filled"), false, [], "must not be empty"],
  ["nothing but NaN", query("filled"), false, oneSample(Number.NaN), "must not be NaN"],
  ["NaN and a number", query("filled"), false, [...oneSample(Number.NaN), ...oneSample(1)], undefined],
  ["empty, must be empty", query("empty"), false, [], undefined],
  ["filled, must be empty", query("empty"), false, oneSample(1), "must be empty"],
  ["either", query("either"), false, [], undefined],
  ["in its range", query("filled", [0, 1]), false, oneSample(1), undefined],
  ["above its range", query("filled", [0, 1]), false, oneSample(1.1), "1.1 is outside [0,1]"],
  ["below its range", query("filled", [0, null]), false, oneSample(-1), "-1 is outside [0,null]"],
  ["an alert outside its range", query("either", [0, 1]), false, oneSample(2), "2 is outside"],
  ["not there yet", query("filled"), true, [], undefined],
  ["there by now", query("filled"), true, oneSample(1), "it works now: take it out of not-yet.json"],
])("the result of a query is judged: %s", (_, question, waiting, answer, expected) => {
  const found = wrong(question, waiting, answer);
  expect(found === undefined ? undefined : found.slice(0, expected?.length)).toBe(expected!);
});

test("Grafana's variables and label_values become PromQL", () => {
  expect(promql("rate(x[$__rate_interval])")).toBe("rate(x[1m])");
  expect(promql("label_values(model_name)")).toBe('group by (model_name) ({model_name!=""})');
  expect(promql('label_values(x{a="b"}, model)')).toBe('group by (model) (x{a="b"})');
  expect(() => promql("x[$unknown]")).toThrow("$unknown is not known");
});
