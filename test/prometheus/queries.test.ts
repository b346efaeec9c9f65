/** Does everybody who asks our metrics get what the real server would give: something where it has it, nothing where not? */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { sampled } from "../size.ts";
import { type Asked, expressions, LIVE_ONLY, notYet, promql, queries, wrong } from "./asked.ts";
import { END_S, type Hour, hour, REST_S, sharedHour } from "./hour.ts";
import { deploy } from "./prometheus.ts";

setDefaultTimeout(60_000);

let loaded: Hour;
beforeAll(async () => {
  loaded = await sharedHour();
});

const waiting = new Set(notYet.flatMap((one) => one.waiting));

async function complaints(asked: readonly Asked[], { prometheus } = loaded): Promise<string[]> {
  const found: string[] = [];
  for (const one of asked) {
    if (one.must === "none" || LIVE_ONLY.test(one.expr)) continue;
    const answer = await prometheus.query(promql(one.expr), END_S);
    const what = wrong(one, waiting.has(one.id), answer);
    if (what) found.push(`${one.id}: ${what}`);
  }
  return found;
}

test("the hour has ends of every kind", () => {
  expect(loaded.output).toMatch(/[1-9][\d,]* left by their clients.* refused/);
  expect(loaded.output).toMatch(/preemptions +[1-9]/);
});

test("queries of articles, dashboards, alerts and autoscalers", async () => {
  expect(queries.length).toBe(236);
  expect(await complaints(queries)).toEqual([]);
});

test("expressions of public dashboards, scaling rules and alerts", async () => {
  expect(expressions.length).toBeGreaterThan(170);
  expect(await complaints(expressions)).toEqual([]);
});

const former = [...queries, ...expressions].filter(({ profile }) => profile !== undefined);
test.each(sampled("prometheus", [...new Set(former.map(({ profile }) => profile!))], 1))(
  "names that only %s and before had are there with its profile",
  async (profile) => {
    const old = await hour("--metrics-profile", profile, "--dialects", "vllm", "--allow-metrics", "false");
    try {
      const asked = former.filter((one) => one.profile === profile).map((one) => ({ ...one, must: "filled" as const }));
      expect(asked.length).toBeGreaterThan(1);
      expect(await complaints(asked, old)).toEqual([]);
    } finally {
      await old.stop();
    }
  },
);

/** Alerts, among those that we ship, that are raised. Bursts fill the pool and the queue; a GPU may have nothing to do. */
const RAISED = [
  ...["VllmQueueBuilds", "VllmKvCacheFilling", "VllmKvCacheFull", "VllmPreemptions", "VllmTimeToFirstTokenSlow"],
  ...["TritonKVCacheExhaustion", "TrtllmSaturated"],
];
const AT_REST = ["TritonGPUIdle"];

test("the load raises the alerts that it must, and at rest there are none", async () => {
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

test("what autoscalers are told to ask has a value", async () => {
  const asked = readdirSync(`${deploy}keda`).flatMap((file) => {
    const { spec } = parse(readFileSync(`${deploy}keda/${file}`, "utf8"));
    return spec.triggers.map(({ metadata }: { metadata: { query: string } }) => metadata.query) as string[];
  });
  expect(asked).toHaveLength(3);
  // Near 0 on a real one however long its queue is: nothing scales on it, and no alert waits for it.
  expect(readFileSync(`${deploy}prometheus/rules/alerts.yml`, "utf8") + asked).not.toContain('"waiting"');
  for (const query of asked) {
    const under = await loaded.prometheus.query(query, 700);
    const rest = await loaded.prometheus.query(query, REST_S);
    expect([query, under.map(({ value }) => value > 0), rest.map(({ value }) => value)]).toEqual([query, [true], [0]]);
  }
});

test("what is not there yet has a reason, and is asked for", () => {
  const filled = new Set([...queries, ...expressions].filter(({ must }) => must === "filled").map(({ id }) => id));
  expect([...waiting].filter((id) => !filled.has(id))).toEqual([]);
  expect(notYet.flatMap((one) => one.waiting).length).toBe(waiting.size);
  for (const { reason } of notYet) expect(reason.length).toBeGreaterThan(10);
});
