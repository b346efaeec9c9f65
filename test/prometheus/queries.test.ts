/**
 * Checks that queries of dashboards, rules and articles return a value if the real server has one, and nothing if it does
 * not.
 */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { chartRoles } from "../../scripts/chart-schema.ts";
import { sampled } from "../size.ts";
import { expressions, LIVE_ONLY, type MetricsQuery, notYet, ofTriton, promql, queries, wrong } from "./asked.ts";
import { END_S, type Hour, hour, REST_S, sharedHour } from "./hour.ts";
import { deploy } from "./prometheus.ts";

setDefaultTimeout(60_000);

let loaded: Hour;
beforeAll(async () => {
  loaded = await sharedHour();
});

const waiting = new Set(notYet.flatMap((entry) => entry.waiting));

async function complaints(selected: readonly MetricsQuery[], { prometheus } = loaded): Promise<string[]> {
  const found: string[] = [];
  for (const query of selected) {
    if (query.must === "none" || LIVE_ONLY.test(query.expr) || ofTriton(query)) continue;
    const answer = await prometheus.query(promql(query.expr), END_S);
    const fault = wrong(query, waiting.has(query.id), answer);
    if (fault) found.push(`${query.id}: ${fault}`);
  }
  return found;
}

test("requests of the hour end in every way", () => {
  expect(loaded.output).toMatch(/[1-9][\d,]* left by their clients.* refused/);
  expect(loaded.output).toMatch(/preemptions +[1-9]/);
});

test("queries of articles, dashboards, alerts and autoscalers have the expected results", async () => {
  expect(queries.length).toBe(236);
  expect(await complaints(queries)).toEqual([]);
});

test("expressions of public dashboards, scaling rules and alerts have the expected results", async () => {
  expect(expressions.length).toBeGreaterThan(170);
  expect(await complaints(expressions)).toEqual([]);
});

const former = [...queries, ...expressions].filter(({ profile }) => profile !== undefined);
test.each(sampled("prometheus", [...new Set(former.map(({ profile }) => profile!))], 1))(
  "names of versions up to %s exist with its profile",
  async (profile) => {
    const old = await hour("--metrics-profile", profile, "--dialects", "vllm", "--allow-metrics", "false");
    try {
      const selected = former
        .filter((query) => query.profile === profile)
        .map((query) => ({ ...query, must: "filled" as const }));
      expect(selected.length).toBeGreaterThan(1);
      expect(await complaints(selected, old)).toEqual([]);
    } finally {
      await old.stop();
    }
  },
);

/**
 * Shipped alerts that the load raises, because bursts fill the pool and the queue, and alerts that an idle server may raise,
 * because its GPU has no work.
 */
const RAISED = [
  ...["VllmQueueBuilds", "VllmKvCacheFilling", "VllmKvCacheFull", "VllmPreemptions", "VllmTimeToFirstTokenSlow"],
  ...["TritonKVCacheExhaustion", "TrtllmSaturated"],
];
const AT_REST = ["TritonGPUIdle"];

test("the load raises the expected alerts, and an idle server raises none", async () => {
  const { groups } = parse(readFileSync(`${deploy}prometheus/rules/alerts.yml`, "utf8")) as {
    groups: readonly { rules: readonly { alert: string; expr: string }[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  const raised = async (window: string, atS: number) => {
    const found: string[] = [];
    for (const { alert, expr } of rules) {
      const answer = await loaded.prometheus.query(`count_over_time((${expr})[${window}:15s])`, atS);
      if (answer.length > 0) found.push(alert);
    }
    return found;
  };
  const all = await raised("1h", END_S);
  expect(RAISED.filter((name) => !all.includes(name))).toEqual([]);
  expect((await raised("2m", REST_S)).filter((name) => !AT_REST.includes(name))).toEqual([]);
});

/** The queries that the chart ships for autoscalers. trtllm-serve has no replay, so its families are checked by name below. */
const { vllm, triton, "trtllm-serve": trtllmServe } = chartRoles;

test("the queries that we ship for KEDA have a value under load, and 0 at rest", async () => {
  const selected = [...vllm!.keda, ...triton!.keda].map(({ query }) => query);
  expect(selected).toHaveLength(4);
  // On a real server this value is near 0 however long the queue is, so nothing may scale on it and no alert may use it.
  expect(readFileSync(`${deploy}prometheus/rules/alerts.yml`, "utf8") + selected).not.toContain('"waiting"');
  for (const query of selected) {
    const under = await loaded.prometheus.query(query, 700);
    const rest = await loaded.prometheus.query(query, REST_S);
    // Requests of a TensorRT-LLM backend are never pending, which is why the other two triggers exist.
    const isPending = query.includes("pending");
    expect([query, under.map(({ value }) => value > 0), rest.map(({ value }) => value)]).toEqual([
      query,
      [!isPending],
      [0],
    ]);
  }
});

test("the chart's queries for trtllm-serve read families that it has", () => {
  const families = readFileSync(new URL("../../src/servers/trtllm/families.ts", import.meta.url), "utf8");
  const { hpa, keda } = trtllmServe!;
  for (const query of [hpa.query, hpa.series, ...keda.map(({ query }) => query)])
    expect(families).toContain(/trtllm_(\w+)/.exec(query)![1]!);
});

test("each query that does not work yet has a reason, and must be filled", () => {
  const filled = new Set([...queries, ...expressions].filter(({ must }) => must === "filled").map(({ id }) => id));
  expect([...waiting].filter((id) => !filled.has(id))).toEqual([]);
  expect(notYet.flatMap((entry) => entry.waiting).length).toBe(waiting.size);
  for (const { reason } of notYet) expect(reason.length).toBeGreaterThan(10);
});
