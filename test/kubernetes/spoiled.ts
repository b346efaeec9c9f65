/** One spoiled member per kind of object, which every check of manifests must find. */
import { type KubernetesObject, replaced, type Yaml } from "./objects.ts";

type Path = readonly (string | number)[];

/** The member of each kind that is spoiled, with its value. */
export const SPOILED: Readonly<Record<string, readonly [path: Path, value: Yaml]>> = {
  Deployment: [["spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"], "http"],
  StatefulSet: [["spec", "replicas"], "two"],
  Service: [["spec", "ports", 0, "port"], "http"],
  ConfigMap: [["immutable"], "yes"],
  Secret: [["type"], 5],
  HorizontalPodAutoscaler: [["spec", "maxReplicas"], "twenty"],
  PodDisruptionBudget: [["spec", "selector", "matchLabels"], "all"],
  NetworkPolicy: [["spec", "policyTypes"], "Ingress"],
  Role: [["rules", 0, "verbs"], "get"],
  RoleBinding: [["roleRef", "name"], 7],
  PodMonitor: [["spec", "podMetricsEndpoints", 0, "interval"], "30 seconds"],
  ServiceMonitor: [["spec", "endpoints", 0, "scheme"], "ftp"],
  PrometheusRule: [["spec", "groups", 0, "rules", 0, "record"], 5],
  ScaledObject: [["spec", "triggers", 0, "metadata", "threshold"], 5],
  InferencePool: [["spec", "targetPorts", 0, "number"], 70_000],
  InferenceObjective: [["spec", "priority"], "high"],
  InferenceModelRewrite: [["spec", "rules", 0, "targets", 0, "weight"], -1],
  HTTPRoute: [["spec", "rules", 0, "timeouts", "request"], "10 minutes"],
};

export interface SpoiledObject {
  readonly object: KubernetesObject;
  readonly path: Path;
  /** True if the kind has no member of this name. */
  readonly isUnknown: boolean;
}

/** Returns the object with the spoiled member of its kind. */
export function spoiled(object: KubernetesObject): SpoiledObject {
  const [path, value] = SPOILED[object.kind]!;
  return { object: replaced(object, path, value), path, isUnknown: false };
}

/** Returns the object with a member that its kind does not have. */
export function misspelled(object: KubernetesObject): SpoiledObject {
  const path = object.spec === undefined ? ["labells"] : ["spec", "labells"];
  return { object: replaced(object, path, {}), path, isUnknown: true };
}

/** Returns the first object of each kind, in the order of their names. */
export function oneOfEachKind(objects: readonly KubernetesObject[]): KubernetesObject[] {
  return [...new Set(objects.map(({ kind }) => kind))].sort().map((kind) => objects.find((one) => one.kind === kind)!);
}
