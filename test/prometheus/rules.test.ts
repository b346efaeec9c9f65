/** Checks that promtool accepts the shipped rules, and that a unit test shows the effect of each rule. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { deploy, promtool } from "./prometheus.ts";

const read = (path: string) => readFileSync(`${deploy}prometheus/${path}`, "utf8");

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
}
const faultRulesOf = (path: string): Rule[] =>
  parse(read(path)).groups.flatMap(({ rules }: { rules: readonly Rule[] }) => rules);

interface AlertTest {
  readonly alertname: string;
  readonly exp_alerts: readonly unknown[];
}

test("the scrape configuration and its rules are valid", async () => {
  const { code, output } = await promtool("check", "config", "prometheus/prometheus.yml");
  expect(output).not.toContain("FAILED");
  expect([code, output.match(/SUCCESS: \d+ rules found/g)?.length]).toEqual([
    0,
    readdirSync(`${deploy}prometheus/rules`).length,
  ]);
});

const suites = readdirSync(`${deploy}prometheus/tests`);
test.each(suites)("promtool's unit tests of %s pass", async (file) => {
  const { code, output } = await promtool("test", "rules", `prometheus/tests/${file}`);
  expect([code, output]).toEqual([0, expect.stringContaining("SUCCESS")]);
});

test("the unit tests show each alert silent and firing", () => {
  const tests: { alert_rule_test: readonly AlertTest[] }[] = parse(read("tests/alerts.yml")).tests;
  const shown = tests.flatMap(({ alert_rule_test }) => alert_rule_test);
  const names = (fires: boolean) =>
    new Set(shown.filter(({ exp_alerts }) => exp_alerts.length > 0 === fires).map(({ alertname }) => alertname));
  const alerts = faultRulesOf("rules/alerts.yml").map(({ alert }) => alert!);
  expect(alerts.filter((name) => !names(false).has(name))).toEqual([]);
  expect(alerts.filter((name) => !names(true).has(name))).toEqual([]);
  expect([...names(true)].filter((name) => !alerts.includes(name))).toEqual([]);
});

test("the unit tests show each recorded series with a value", () => {
  const tests = parse(read("tests/recording.yml")).tests as {
    promql_expr_test: readonly { exp_samples: readonly { labels: string }[] }[];
  }[];
  const shown = new Set(
    tests.flatMap(({ promql_expr_test }) =>
      promql_expr_test.flatMap(({ exp_samples }) => exp_samples.map(({ labels }) => labels.replace(/\{.*/, ""))),
    ),
  );
  const records = new Set(faultRulesOf("rules/recording.yml").map(({ record }) => record!));
  expect([...records].filter((name) => !shown.has(name))).toEqual([]);
});

test("every alert has a severity and a summary", () => {
  for (const { alert, record, labels, ...rest } of faultRulesOf("rules/alerts.yml")) {
    expect([alert, record]).toEqual([expect.any(String), undefined]);
    expect([alert, labels?.severity]).toEqual([alert, expect.stringMatching(/^(info|warning|critical)$/)]);
    expect([alert, (rest as { annotations?: { summary?: string } }).annotations?.summary]).toEqual([
      alert,
      expect.any(String),
    ]);
  }
});
