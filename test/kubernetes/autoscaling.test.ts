/** Checks the autoscalers of the chart, and the arithmetic with which docs/how-to/kubernetes.md explains an HPA. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { CHART, chartRoles } from "../../scripts/chart-schema.ts";
import { HPA_SETTINGS, wantedPods } from "../../scripts/docs/kubernetes.ts";
import { readManifests } from "./objects.ts";

const objects = [...readManifests().values()].flat();

test("the HPA is that of Triton's guides, and its rule has the metric's name", () => {
  const { spec } = objects.find(({ kind }) => kind === "HorizontalPodAutoscaler")!;
  expect([spec.minReplicas, spec.maxReplicas]).toEqual([2, 20]);
  expect(spec.metrics).toEqual([
    {
      type: "Pods",
      pods: { metric: { name: "triton_queue_compute_ratio" }, target: { type: "AverageValue", averageValue: "100m" } },
    },
  ]);
  expect(spec.behavior).toEqual({
    scaleUp: { stabilizationWindowSeconds: 60, policies: [{ type: "Percent", value: 50, periodSeconds: 60 }] },
    scaleDown: { stabilizationWindowSeconds: 300, policies: [{ type: "Percent", value: 10, periodSeconds: 60 }] },
  });
  const adapter = objects.find(({ metadata }) => metadata.name === "triton-adapter")!;
  expect(parse(adapter.data["config.yaml"]).rules[0].name).toEqual({ as: "triton_queue_compute_ratio" });
});

test("KEDA scales Triton on pending requests, and an LLM on places and KV blocks", () => {
  const { keda } = parse(readFileSync(`${CHART}values.yaml`, "utf8"));
  expect([keda.minReplicas, keda.maxReplicas]).toEqual([1, 50]);
  const triggers = chartRoles.triton!.keda.map(({ query, threshold, metricType }) => [
    /nv_\w+/.exec(query)![0],
    threshold,
    metricType,
  ]);
  expect(triggers).toEqual([
    ["nv_inference_pending_request_count", "10", "AverageValue"],
    ["nv_trt_llm_request_metrics", "0.7", "Value"],
    ["nv_trt_llm_kv_cache_block_metrics", "0.8", "Value"],
  ]);
});

test.each([
  // The examples of Kubernetes' documentation: 200m for a target of 100m doubles, 50m halves.
  [4, 0.2, "usual", 8],
  [4, 0.05, "usual", 2],
  [4, 0.11, "usual", 4],
  [4, 0.111, "usual", 5],
  [4, 0.09, "usual", 4],
  [3, 0.3, "usual", 9],
  // With tolerances nothing changes between 0.1 and 0.5.
  [4, 0.1, "bands", 4],
  [4, 0.099, "bands", 1],
  [4, 0.5, "bands", 4],
  [4, 0.501, "bands", 5],
] as const)("%d pods with ratio %d and settings %s become %d", (pods, ratio, settings, wanted) => {
  expect(wantedPods(pods, ratio, HPA_SETTINGS[settings])).toBe(wanted);
});
