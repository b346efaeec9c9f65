/** Returns the tables of docs/how-to/kubernetes.md: objects of the chart, and what an HPA does in the bands of a ratio. */
import { markdownTable } from "./markdown.ts";

/** Values that turn objects on, with the objects and what the cluster must have for them. */
const OBJECTS: readonly (readonly [value: string, objects: string, needs: string])[] = [
  ["`ranks`", "StatefulSet in place of the Deployment, with a headless Service", ""],
  ["`fixtures`, `script`, `faultPlan`, `modelRepository`", "ConfigMaps of up to 1 MiB, mounted and set as options", ""],
  ["`keys`, `tls`", "Secrets, or names of yours", ""],
  [
    "`podMonitor`, `serviceMonitor`, `prometheusRule`",
    "scrapes, recording rules and alerts",
    "the Prometheus operator",
  ],
  [
    "`prometheusConfig`",
    "`prometheus.yml` with Kubernetes discovery, and the rights for it",
    "a Prometheus without operator",
  ],
  ["`dashboards`", "ConfigMap with the role's dashboards", "Grafana's sidecar"],
  ["`hpa`", "HorizontalPodAutoscaler, and the rule that makes its metric", "prometheus-adapter"],
  ["`keda`", "ScaledObject", "KEDA"],
  ["`podDisruptionBudget`, `networkPolicy`", "objects of these names", ""],
  [
    "`inferencePool`",
    "InferencePool, InferenceObjectives, InferenceModelRewrites, HTTPRoute",
    "the Gateway API and its inference extension",
  ],
  ["`llmdRole`, `dynamo`", "pod labels of llm-d and Dynamo", ""],
];

const objectsTable = () =>
  markdownTable([
    ["Value", "Makes", "Needs"],
    ...OBJECTS.map(([value, objects, needs]) => [value, objects, needs || "–"]),
  ]);

export interface HpaSettings {
  /** Value of the metric, as a mean over the pods, that the HPA aims at. */
  readonly target: number;
  /** Relative distance from the target, above and below it, within which nothing changes. Kubernetes' default is 0.1. */
  readonly toleranceUp: number;
  readonly toleranceDown: number;
}

/** Settings of an HPA: the target of Triton's usual example, and two that follow the bands in Triton's guides to autoscaling. */
export const HPA_SETTINGS = {
  usual: { target: 0.1, toleranceUp: 0.1, toleranceDown: 0.1 },
  upper: { target: 0.5, toleranceUp: 0.1, toleranceDown: 0.1 },
  bands: { target: 0.5, toleranceUp: 0, toleranceDown: 0.8 },
} as const satisfies Readonly<Record<string, HpaSettings>>;

/**
 * Returns the number of pods that a HorizontalPodAutoscaler wants, before its limits and policies
 * (Kubernetes' documentation, "Algorithm details").
 */
export function wantedPods(pods: number, ratio: number, { target, toleranceUp, toleranceDown }: HpaSettings): number {
  const usage = ratio / target;
  // Add a little to the tolerances, because floats are rounded.
  if (usage <= 1 + toleranceUp + 1e-9 && usage >= 1 - toleranceDown - 1e-9) return pods;
  return Math.ceil(pods * usage - 1e-9);
}

const BANDS: readonly (readonly [ratio: number, band: string])[] = [
  [0.05, "scale down"],
  [0.11, "good"],
  [0.2, "good"],
  [0.4, "good"],
  [0.55, "scale up"],
  [1, "scale up"],
];
/** Number of running pods in the table of bands. */
const PODS = 4;

function bandsTable(): string {
  const { usual, upper, bands } = HPA_SETTINGS;
  return markdownTable([
    ["Ratio", "Band", "`100m`", "`500m`", "`500m` with tolerances"],
    ...BANDS.map(([ratio, band]) => {
      const wanted = [usual, upper, bands].map((settings) => wantedPods(PODS, ratio, settings));
      return [ratio, band, ...wanted];
    }),
  ]);
}

export const kubernetesTables = () => ({ objects: objectsTable(), bands: bandsTable() });
