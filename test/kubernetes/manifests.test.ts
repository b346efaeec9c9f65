/**
 * Checks the rendered manifests in every run, without Helm. Each object must fit the schema of its kind, one spoiled member per
 * kind must be found, and the names by which objects refer to each other must exist.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { chartRoles } from "../../scripts/chart-schema.ts";
import {
  coreErrors,
  crdErrors,
  hasCrd,
  isPythonMissing,
  type KubernetesObject,
  readManifests,
  root,
  type Yaml,
} from "./objects.ts";
import { prometheusErrors } from "./prometheus-schema.ts";
import { misspelled, oneOfEachKind, SPOILED, type SpoiledObject, spoiled } from "./spoiled.ts";

setDefaultTimeout(60_000);

const files = readManifests();
/** All objects of a release, by the folder of its files. */
const releases = Map.groupBy([...files], ([path]) => path.slice(0, path.lastIndexOf("/")));
const all = [...files.values()].flat();
const kinds = oneOfEachKind(all);
const nameOf = ({ kind, metadata }: KubernetesObject) => `${kind} ${metadata.name}`;

test("the rendered manifests have every kind of the chart, and each has a spoiled example", () => {
  expect(kinds.map(({ kind }) => kind)).toEqual(Object.keys(SPOILED).sort());
});

test.skipIf(isPythonMissing)("kubernetes-validate accepts the objects of Kubernetes, and finds what is spoiled", () => {
  const objects = all.filter((object) => !hasCrd(object));
  const examples = kinds.filter((object) => !hasCrd(object)).flatMap((object) => [spoiled(object), misspelled(object)]);
  expect(objects.length).toBeGreaterThan(25);
  const errors = coreErrors([...objects, ...examples.map(({ object }) => object)]);
  const wrong = objects.flatMap((object, at) => errors[at]!.map((error) => `${nameOf(object)}: ${error}`));
  expect(wrong).toEqual([]);
  for (const [at, example] of examples.entries()) expectFound(example, errors[objects.length + at]!);
});

test("the CRDs accept the other objects, and find what is spoiled", () => {
  const objects = all.filter(hasCrd);
  expect(objects.length).toBeGreaterThan(9);
  expect(objects.flatMap((object) => crdErrors(object).map((error) => `${nameOf(object)}: ${error}`))).toEqual([]);
  for (const object of kinds.filter(hasCrd))
    for (const example of [spoiled(object), misspelled(object)]) expectFound(example, crdErrors(example.object));
});

/** Expects an error that has the path of the spoiled member. An unknown member is in the text of an error of its parent. */
function expectFound({ object, path, isUnknown }: SpoiledObject, errors: readonly string[]): void {
  const found = errors.some((error) => error.includes(isUnknown ? `${path.at(-1)}` : `${path.join(".")}:`));
  expect([object.kind, path.join("."), found, errors]).toEqual([object.kind, path.join("."), true, errors]);
}

describe.each([...releases])("%s", (_, entries) => {
  const objects = entries.flatMap(([, list]) => list);
  const named = (kind: string, name: string) =>
    objects.find((object) => object.kind === kind && object.metadata.name === name);
  const workload = objects.find(({ kind }) => kind === "Deployment" || kind === "StatefulSet")!;
  const template = workload.spec.template;
  const container = template.spec.containers[0];
  const ports = new Map<string, number>(container.ports.map((port: Yaml) => [port.name, port.containerPort]));

  test("no name is used twice, and none has a namespace", () => {
    const names = objects.map((object) => `${object.apiVersion} ${nameOf(object)}`);
    expect(new Set(names).size).toBe(names.length);
    expect(objects.filter(({ metadata }) => "namespace" in metadata)).toEqual([]);
  });

  test("every selector selects the pods", () => {
    const selectors = objects.flatMap((object) => {
      const { selector, podSelector } = object.spec ?? {};
      const chosen = object.kind === "Service" ? selector : (selector ?? podSelector)?.matchLabels;
      return chosen === undefined ? [] : [[nameOf(object), chosen, object] as const];
    });
    expect(selectors.length).toBeGreaterThan(1);
    for (const [name, chosen, { kind }] of selectors) {
      const labels =
        kind === "ServiceMonitor"
          ? named("Service", workload.metadata.name)!.metadata.labels
          : template.metadata.labels;
      expect([name, labels]).toEqual([name, expect.objectContaining(chosen)]);
    }
  });

  test("mounted ConfigMaps and Secrets exist with their keys, and every mount has a volume", () => {
    const volumes: Yaml[] = template.spec.volumes;
    for (const { configMap, secret } of volumes) {
      if (configMap) {
        const data = named("ConfigMap", configMap.name)!.data;
        const keys = (configMap.items ?? []).map(({ key }: Yaml) => key);
        expect(keys.filter((key: string) => !Object.hasOwn(data, key))).toEqual([]);
        if (configMap.items) expect(keys.sort()).toEqual(Object.keys(data).sort());
      }
      if (secret) expect(Object.keys(named("Secret", secret.secretName)!.data)).toEqual(["tls.crt", "tls.key"]);
    }
    const mounts = container.volumeMounts.map(({ name }: Yaml) => name);
    expect(mounts.sort()).toEqual(volumes.map(({ name }) => name).sort());
    for (const { valueFrom } of container.env ?? []) {
      const { name, key } = valueFrom?.secretKeyRef ?? {};
      if (name !== undefined) expect(named("Secret", name)!.stringData[key]).toEqual(expect.any(String));
    }
  });

  test("every port and every target that an object names exists", () => {
    const used = objects.flatMap(({ kind, spec }) => {
      if (kind === "Service") return spec.ports.map(({ targetPort }: Yaml) => targetPort);
      if (kind === "NetworkPolicy")
        return spec.ingress.flatMap((rule: Yaml) => rule.ports.map(({ port }: Yaml) => port));
      if (/Monitor$/.test(kind)) return (spec.podMetricsEndpoints ?? spec.endpoints).map(({ port }: Yaml) => port);
      return [];
    });
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"])
      used.push((container[probe].httpGet ?? container[probe].tcpSocket).port);
    expect(used.length).toBeGreaterThan(3);
    expect(used.filter((name) => !ports.has(name))).toEqual([]);
    for (const { kind, spec } of objects) {
      if (spec?.scaleTargetRef) expect(spec.scaleTargetRef.name).toBe(workload.metadata.name);
      if (kind === "InferencePool") expect([...ports.values()]).toContain(spec.targetPorts[0].number);
      if (spec?.poolRef) expect(named("InferencePool", spec.poolRef.name)).toBeDefined();
      if (kind === "HTTPRoute") expect(named("InferencePool", spec.rules[0].backendRefs[0].name)).toBeDefined();
      if (kind === "StatefulSet") expect(named("Service", spec.serviceName)!.spec.clusterIP).toBe("None");
    }
    const scaled = objects.some(({ spec }) => spec?.scaleTargetRef);
    expect("replicas" in workload.spec).toBe(!scaled);
  });

  test("the pod asks for little and for no GPU, and cannot write or gain rights", () => {
    const { requests, limits } = container.resources;
    expect(Object.keys({ ...requests, ...limits }).sort()).toEqual(["cpu", "memory"]);
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(template.spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65532 });
    expect([template.spec.automountServiceAccountToken, template.spec.enableServiceLinks]).toEqual([false, false]);
  });
});

test("the monitors keep the names that rules, dashboards and Dynamo's users expect", () => {
  const monitors = all.filter(({ kind }) => /Monitor$/.test(kind));
  const shown = monitors.flatMap(({ kind, metadata, spec }) =>
    (spec.podMetricsEndpoints ?? spec.endpoints).map((endpoint: Yaml) =>
      [
        kind,
        metadata.name,
        endpoint.port,
        endpoint.path,
        endpoint.interval,
        endpoint.scrapeTimeout,
        jobOf(endpoint),
      ].join(" "),
    ),
  );
  expect(shown.sort()).toEqual([
    "PodMonitor dynamo-metrics http /metrics 30s 10s vllm",
    "PodMonitor triton-metrics metrics /metrics 30s 10s triton",
    "PodMonitor vllm-metrics http /metrics 30s 10s vllm",
    "ServiceMonitor trtllm-metrics http /metrics/understudy 30s 10s understudy",
    "ServiceMonitor trtllm-metrics http /prometheus/metrics 30s 10s trtllm",
  ]);
  const dynamo = all.find(({ metadata }) => metadata.name === "dynamo-metrics")!;
  expect(dynamo.spec.selector.matchLabels).toMatchObject({ "nvidia.com/metrics-enabled": "true" });
  const labels = all.find(({ kind }) => kind === "StatefulSet")!.spec.template.metadata.labels;
  expect(labels).toMatchObject({ "nvidia.com/metrics-enabled": "true", "nvidia.com/dynamo-component-type": "worker" });
});

test("every scrape has a job that an alert watches", () => {
  const alerts = readFileSync(`${root}deploy/prometheus/rules/alerts.yml`, "utf8");
  const watched = /up\{job=~"([^"]+)"\}/.exec(alerts)![1]!.split("|");
  const jobs = Object.values(chartRoles).flatMap(({ scrape }) => scrape.pages.map(({ job }) => job));
  expect(jobs.filter((job) => !watched.includes(job))).toEqual([]);
});

const jobOf = ({ relabelings }: Yaml) => relabelings.find(({ targetLabel }: Yaml) => targetLabel === "job").replacement;

const prometheus: Yaml = parse(
  all.find(({ metadata }) => metadata.name === "triton-prometheus")!.data["prometheus.yml"],
);

test("prometheus.yml with Kubernetes discovery fits a schema of ours, which finds what is spoiled", () => {
  expect(prometheusErrors(prometheus)).toEqual([]);
  const jobs = prometheus.scrape_configs.map((job: Yaml) => job.job_name);
  expect(jobs).toEqual(["triton", "dynamo-frontend", "dynamo-worker"]);
  const [triton] = prometheus.scrape_configs;
  expect(new RegExp(`^(?:${triton.metric_relabel_configs[0].regex})$`).test("vllm:num_requests_waiting")).toBe(true);
  const spoil: readonly [(copy: Yaml) => void, string][] = [
    [(copy) => (copy.scrape_configs[0].kubernetes_sd_configs[0].role = "pods"), "kubernetes_sd_configs/0/role"],
    [(copy) => (copy.scrape_configs[0].relabel_configs[0].action = "kept"), "relabel_configs/0/action"],
    [(copy) => delete copy.scrape_configs[1].relabel_configs[0].regex, "relabel_configs/0"],
    [(copy) => (copy.global.scrape_interval = 15), "global/scrape_interval"],
    [(copy) => (copy.scrape_config = []), ""],
  ];
  for (const [change, path] of spoil) {
    const copy = structuredClone(prometheus);
    change(copy);
    expect(prometheusErrors(copy).join("\n")).toContain(path);
  }
});
