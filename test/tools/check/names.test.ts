/** Tests that a mapping of names lets a dialect's laws judge a custom engine. */
import { describe, expect, test } from "bun:test";
import {
  type CheckOptions,
  checkScrapes,
  equal,
  law,
  type NameMap,
  type Report,
  term,
} from "../../../src/tools/check/index.ts";
import { checkTable } from "../../../src/tools/check/report.ts";

const ids = ({ violated }: Report) => violated.map(({ id }) => id);
const verdict = (report: Report, id: string) => report.laws.find((law) => law.id === id)!.verdict;
const table = (report: Report) => checkTable([{ name: "page.txt", report }]);

describe("family names of a custom engine", () => {
  const engine = (requests: number, running: number, observed: number) => `# TYPE my_done_total counter
my_done_total{pool="a"} ${requests}
# TYPE my_failed_total counter
my_failed_total{pool="a"} 1
# TYPE my_running gauge
my_running{pool="a"} ${running}
# TYPE my_latency_seconds histogram
my_latency_seconds_bucket{pool="a",le="0.5"} ${observed}
my_latency_seconds_bucket{pool="a",le="+Inf"} ${observed}
my_latency_seconds_sum{pool="a"} 1
my_latency_seconds_count{pool="a"} ${observed}
`;
  const names: NameMap = {
    dialect: "vllm",
    families: {
      my_done_total: 'request_success_total{finished_reason="stop"}',
      my_failed_total: 'vllm:request_success_total{finished_reason="error"}',
      my_running: "num_requests_running",
      my_latency_seconds: "e2e_request_latency_seconds",
    },
    labels: { pool: "engine" },
  };
  const check = (text: string, more: CheckOptions = {}, rest = true) =>
    checkScrapes([{ text, rest }], { names, ...more });

  test("a correct page keeps vLLM's laws, even with other bounds and finish reasons", () => {
    const report = check(engine(4, 0, 5));
    expect(ids(report)).toEqual([]);
    expect(report).toMatchObject({ dialects: ["vllm"], generalOnly: null, namesMissing: [] });
    expect(verdict(report, "V15")).toBe("held");
    expect(report.applicable).toBeGreaterThan(checkScrapes([engine(4, 0, 5)]).applicable);
  });

  test("a lost request end and a stuck gauge are found and reported under the page's names and labels", () => {
    const [lost] = check(engine(4, 0, 6)).errors;
    expect(lost).toMatchObject({ id: "V15" });
    const { left, right } = lost!.violations[0]!;
    expect([left.text, right.text]).toEqual([
      'my_latency_seconds_count{pool="a"}',
      'my_done_total|my_failed_total{pool="a"}',
    ]);
    expect(check(engine(4, 1, 5)).errors.map(({ id }) => id)).toEqual(["G19"]);
    expect(check(engine(4, 1, 5)).errors[0]!.violations[0]!.left.text).toBe('my_running{pool="a"}');
  });

  test("parts of a histogram without TYPE, and OpenMetrics counters, are renamed too", () => {
    const bare = engine(4, 0, 6).replaceAll(/^#.*\n/gm, "");
    expect(ids(check(bare))).toContain("V15");
    const openMetrics = `${engine(4, 0, 6).replaceAll(/# TYPE (my_\w+)_total/g, "# TYPE $1")}# EOF\n`;
    expect(ids(check(openMetrics))).toContain("V15");
  });

  test("a custom law sees the names as the page wrote them", () => {
    const whole = law({
      id: "MINE1",
      sentence: "each end has a latency",
      means: "A request was lost.",
      check: ({ now }) => equal(now.get("my_latency_seconds_count"), term("4 + 1", now.get("my_done_total").value + 1)),
    });
    expect(verdict(check(engine(4, 0, 5), { laws: [whole] }), "MINE1")).toBe("held");
    expect(verdict(check(engine(4, 0, 6), { laws: [whole] }), "MINE1")).toBe("violated");
  });

  test("names that no page has are reported", () => {
    const report = check(engine(4, 0, 5).replaceAll("my_running", "mine"), { restGauges: ["mine", "typo"] });
    expect(report.namesMissing).toEqual(["my_running", "typo"]);
    expect(table(report)).toContain("names that no page has: my_running, typo");
  });

  test("restGauges alone: a gauge that is stuck at rest is found; two idle scrapes prove the rest", () => {
    const stuck = checkScrapes([{ text: engine(4, 1, 5), rest: true }], { restGauges: ["my_running"] });
    expect(ids(stuck)).toEqual(["G19"]);
    expect(stuck.generalOnly).toContain("not known");
    const idle = checkScrapes([engine(4, 0, 5), engine(4, 0, 5)], { restGauges: ["my_running"], only: ["G19"] });
    expect(verdict(idle, "G19")).toBe("held");
  });

  test.each<[unknown, string]>([
    [{ dialect: "vlm", families: { a: "b" } }, 'names: dialect "vlm" must be one of vllm, trtllm-serve,'],
    [{ dialect: "vllm", families: {} }, "names: families must be an object of names, with at least one"],
    [
      { dialect: "vllm", families: { a: "request_success" } },
      'names: families: "a": vllm has no family "request_success"',
    ],
    [
      { dialect: "vllm", families: { a: "num_requests_running{" } },
      'names: families: "a": "num_requests_running{" must be',
    ],
    [{ ...names, labels: { pool: "en gine" } }, 'names: labels: "pool": "en gine" must be names of labels'],
    [{ ...names, family: 1 }, 'names: "family" is unknown; accepted are dialect, families, labels'],
    [7, "names: must be an object with dialect, families and, optionally, labels"],
  ])("%j is refused with a reason", (invalid, message) => {
    expect(() => check("x 1\n", { names: invalid as NameMap })).toThrow(message);
  });
});
