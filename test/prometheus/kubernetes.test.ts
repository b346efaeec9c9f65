/**
 * Checks what the chart gives to Prometheus: the rule of prometheus-adapter by promtool's unit tests, and `prometheus.yml` for
 * Kubernetes by promtool without its discovery, which Debian's promtool does not have.
 */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { chartRoles } from "../../scripts/chart-schema.ts";
import { readManifests, type Yaml } from "../kubernetes/objects.ts";
import { promtool } from "./prometheus.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-kubernetes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const configMaps = [...readManifests().values()].flat().filter(({ kind }) => kind === "ConfigMap");
const dataOf = (name: string): Yaml => configMaps.find(({ metadata }) => metadata.name === name)!.data;

/** Series of two pods of an adapter's query, and the value per pod that the query must have after four minutes. */
const EXAMPLES: Readonly<
  Record<string, readonly [input: Readonly<Record<string, string>>, values: readonly number[]]>
> = {
  // A quarter second of queue per second of computation, then a pod at rest, whose counters stand still.
  triton: [
    {
      'nv_inference_queue_duration_us{pod="a",model="x"}': "0+5000000x20",
      'nv_inference_compute_infer_duration_us{pod="a",model="x"}': "0+20000000x20",
      'nv_inference_queue_duration_us{pod="b",model="x"}': "7x20",
      'nv_inference_compute_infer_duration_us{pod="b",model="x"}': "9x20",
    },
    [0.25, 0],
  ],
  vllm: [
    {
      'vllm:num_requests_waiting{pod="a",engine="0"}': "3x20",
      'vllm:num_requests_waiting{pod="a",engine="1"}': "4x20",
      'vllm:num_requests_waiting{pod="b",engine="0"}': "0x20",
    },
    [7, 0],
  ],
  "trtllm-serve": [
    { 'trtllm_num_requests_waiting{pod="a"}': "3x20", 'trtllm_num_requests_waiting{pod="b"}': "0x20" },
    [3, 0],
  ],
};

test.each(Object.entries(EXAMPLES))(
  "the adapter's rule for %s has the expected value per pod",
  async (role, example) => {
    const [input, values] = example;
    const { query, series } = chartRoles[role]!.hpa;
    expect(Object.keys(input)[0]).toStartWith(`${series}{`);
    // prometheus-adapter replaces both templates.
    const expr = query.replaceAll("<<.LabelMatchers>>", 'pod=~"a|b"').replaceAll("<<.GroupBy>>", "pod");
    const exp_samples = values.map((value, at) => ({ labels: `{pod="${"ab"[at]}"}`, value }));
    const suite = {
      evaluation_interval: "15s",
      tests: [
        {
          interval: "30s",
          input_series: Object.entries(input).map(([series, values]) => ({ series, values })),
          promql_expr_test: [{ expr, eval_time: "4m", exp_samples }],
        },
      ],
    };
    const file = join(folder, `${role}.yml`);
    writeFileSync(file, stringify(suite));
    const { code, output } = await promtool("test", "rules", file);
    expect([code, output]).toEqual([0, expect.stringContaining("SUCCESS")]);
  },
);

test("the rendered adapter's file has the query of its role", () => {
  const { rules } = parse(dataOf("triton-adapter")["config.yaml"]);
  const { metric, query, series } = chartRoles.triton!.hpa;
  expect(rules).toEqual([
    expect.objectContaining({
      name: { as: metric },
      metricsQuery: query,
      seriesQuery: `${series}{namespace!="",pod!=""}`,
    }),
  ]);
});

test("promtool accepts prometheus.yml for Kubernetes with its rules, except for the discovery", async () => {
  const { "prometheus.yml": text, ...rules } = dataOf("triton-prometheus");
  const configuration = parse(text);
  for (const job of configuration.scrape_configs) {
    expect(job.kubernetes_sd_configs).toEqual([{ role: "pod", namespaces: { own_namespace: true } }]);
    delete job.kubernetes_sd_configs;
    job.static_configs = [{ targets: ["127.0.0.1:8002"] }];
  }
  writeFileSync(join(folder, "prometheus.yml"), stringify(configuration));
  for (const [name, rule] of Object.entries<string>(rules)) writeFileSync(join(folder, name), rule);
  const { code, output } = await promtool("check", "config", join(folder, "prometheus.yml"));
  expect([code, output.match(/SUCCESS: \d+ rules found/g)?.length]).toEqual([0, 2]);
});
