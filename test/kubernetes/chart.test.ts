/**
 * Checks the chart with Helm, and the manifests with kubectl-validate: only in `npx bun run test kubernetes`, because both are
 * built with Go.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RENDERED, RENDERED_FOR_TESTS, render, runHelm, TEMPLATE, valuesOf } from "../../scripts/chart.ts";
import { CHART } from "../../scripts/chart-schema.ts";
import { figure, leavesOut, sized } from "../size.ts";
import { type GoTools, goTools, kubectlErrors, required } from "./go-tools.ts";
import { type KubernetesObject, objectsIn, readManifests, replaced, root } from "./objects.ts";
import { misspelled, oneOfEachKind, spoiled } from "./spoiled.ts";
import { workloadIn } from "./workload.ts";

setDefaultTimeout(30 * 60_000);

const isRun = sized("kubernetes", { sample: false, whole: true }) && !leavesOut("go");
const objects = [...readManifests().values()].flat();

let tools: GoTools;
beforeAll(() => {
  if (isRun) tools = goTools();
});

/** Renders the chart with values. Throws Helm's error. */
const template = (values: object): KubernetesObject[] =>
  objectsIn(runHelm(tools.helm, ...TEMPLATE, "release", CHART, ...jsonValues(values)));
const jsonValues = (values: object) =>
  Object.entries(values).flatMap(([name, value]) => ["--set-json", `${name}=${JSON.stringify(value)}`]);

describe.skipIf(!isRun)("with Go", () => {
  test.each([null, ...[...RENDERED, ...RENDERED_FOR_TESTS].map(valuesOf)])(
    "helm lint has no complaint with %s",
    (values) => {
      const output = runHelm(
        tools.helm,
        "lint",
        "--strict",
        CHART,
        ...TEMPLATE.slice(1),
        ...(values ? ["-f", values] : []),
      );
      expect(output).toContain("1 chart(s) linted, 0 chart(s) failed");
      expect(output).not.toMatch(/WARNING|ERROR/);
    },
  );

  test("the committed manifests are what Helm renders (npx bun scripts/chart.ts --helm FILE)", () => {
    const rendered = render(tools.helm);
    expect([...rendered.keys()].sort()).toEqual([...readManifests().keys()]);
    for (const [path, text] of rendered) expect([path, readFileSync(root + path, "utf8")]).toEqual([path, text]);
  });

  test("the packed chart renders the same as its folder", () => {
    const folder = mkdtempSync(join(tmpdir(), "understudy-chart-"));
    try {
      const saved = runHelm(tools.helm, "package", CHART, "--destination", folder).trim();
      const archive = saved.slice(saved.indexOf(folder));
      const words = ["vllm", "-f", valuesOf("vllm")];
      const rendered = runHelm(tools.helm, ...TEMPLATE, ...words.toSpliced(1, 0, archive));
      expect(rendered).toBe(runHelm(tools.helm, ...TEMPLATE, ...words.toSpliced(1, 0, CHART)));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("kubectl-validate accepts every object, and finds a spoiled member of each kind", () => {
    const errors = kubectlErrors(tools, objects);
    expect(objects.flatMap(({ kind }, at) => (errors[at] === "" ? [] : `${kind}: ${errors[at]}`))).toEqual([]);
    const examples = oneOfEachKind(objects).flatMap((object) => [spoiled(object), misspelled(object)]);
    const found = kubectlErrors(
      tools,
      examples.map(({ object }) => object),
    );
    examples.forEach(({ object, path }, at) => {
      expect([object.kind, found[at]]).toEqual([object.kind, expect.stringContaining(inBrackets(path))]);
    });
    figure("objects", objects.length);
    figure("spoiled objects", examples.length);
  });

  test("kubectl-validate applies the rules of CRDs in CEL, and finds a name used twice", () => {
    const of = (kind: string) => objects.find((object) => object.kind === kind)!;
    const pool = of("InferencePool");
    const { port: _, ...picker } = pool.spec.endpointPickerRef;
    const rules = of("PrometheusRule");
    const [first, second, ...others] = rules.spec.groups;
    const [noPort, twice, timeouts] = kubectlErrors(tools, [
      replaced(pool, ["spec", "endpointPickerRef"], picker),
      replaced(rules, ["spec", "groups"], [first, { ...second, name: first.name }, ...others]),
      replaced(of("HTTPRoute"), ["spec", "rules", 0, "timeouts"], { request: "1s", backendRequest: "2s" }),
    ]);
    expect(noPort).toContain("port is required for a Service");
    expect(twice).toContain("spec.groups[1]: Duplicate value");
    expect(timeouts).toContain("backendRequest timeout cannot be longer than request timeout");
  });

  test.each<[sentence: string, values: object]>([
    ["ranks: 2: only role vllm has ranks", { role: "triton", ranks: 2 }],
    ["ranks: 2: only role vllm has ranks", { role: "trtllm-serve", ranks: 2 }],
    ["hpa.enabled and keda.enabled: both would set", { "hpa.enabled": true, "keda.enabled": true }],
    ["ranks and hpa or keda: the number of ranks is fixed", { ranks: 2, "keda.enabled": true }],
    ["replicas and ranks: ranks makes one pod per rank", { ranks: 2, replicas: 3 }],
    ["ranks and options.data-parallel-size", { ranks: 2, options: { "data-parallel-size": 2 } }],
    ["hpa.minReplicas: 2 is above maxReplicas, 1", { "hpa.enabled": true, "hpa.maxReplicas": 1 }],
    ["podMonitor.enabled and serviceMonitor.enabled", { "podMonitor.enabled": true, "serviceMonitor.enabled": true }],
    ["ports.grpc: role vllm has only http, http2", { ports: { grpc: 8001 } }],
    ["ports: each needs a number of its own", { role: "triton", ports: { http: 8001 } }],
    ["fixtures: role triton has no such option", { role: "triton", fixtures: { "a.yaml": "fixtures: []" } }],
    ["modelRepository: role vllm has no such option", { modelRepository: { "m/config.pbtxt": "" } }],
    [
      "modelRepository.a__b/config.pbtxt: __ stands for",
      { role: "triton", modelRepository: { "a__b/config.pbtxt": "" } },
    ],
    ["script and options.script: both name the same files", { script: "{}", options: { script: "/data/x" } }],
    ["keys: role triton checks no keys", { role: "triton", "keys.admin": "k" }],
    ["keys.existingSecret and keys.api", { "keys.existingSecret": "s", "keys.api": ["k"] }],
    ["tls.existingSecret and tls.certificate", { "tls.existingSecret": "s", "tls.certificate": "c", "tls.key": "k" }],
    ["tls.certificate and tls.key: a certificate needs its key", { "tls.certificate": "c" }],
    ["tls: Triton's OpenAI front end", { role: "triton", options: { openai: true }, "tls.existingSecret": "s" }],
    ["inferencePool.enabled: endpoint pickers need OpenAI's API", { role: "triton", "inferencePool.enabled": true }],
    [
      "inferencePool.appProtocol kubernetes.io/h2c: needs ports.http2",
      { "inferencePool.enabled": true, "inferencePool.appProtocol": "kubernetes.io/h2c" },
    ],
    ["inferencePool.objectives, modelRewrites or route", { "inferencePool.objectives": { a: 1 } }],
    ["max-num-seq", { options: { "max-num-seq": 1 } }],
    ["chart requires kubeVersion", { "": "" }],
  ])("contradicting or unknown values are refused: %s", (sentence, values) => {
    const isOld = "" in values;
    const render = () =>
      isOld ? runHelm(tools.helm, "template", "a", CHART, "--kube-version", "1.20") : template(values);
    expect(render).toThrow(sentence);
  });

  test.each<[name: string, values: object]>([
    ["defaults", {}],
    [
      "an HTTP/2 pool",
      { ports: { http2: 8443 }, "inferencePool.enabled": true, "inferencePool.appProtocol": "kubernetes.io/h2c" },
    ],
    [
      "Triton's OpenAI front end",
      { role: "triton", options: { openai: true }, "inferencePool.enabled": true, "podMonitor.enabled": true },
    ],
    [
      "Triton with TLS, KEDA and lists of flags",
      {
        role: "triton",
        "tls.existingSecret": "cert",
        "keda.enabled": true,
        options: {
          "model-control-mode": "explicit",
          "load-model": ["echo", "add_sub"],
          "cache-config": ["local,size=1048576"],
        },
      },
    ],
    ["trtllm-serve with HPA", { role: "trtllm-serve", "hpa.enabled": true, "prometheusConfig.enabled": true }],
    [
      "ranks behind HTTPS",
      {
        ranks: 3,
        "tls.existingSecret": "cert",
        "keys.existingSecret": "keys",
        "podMonitor.enabled": true,
        "dynamo.componentType": "frontend",
        options: { seed: 4294967295, workers: 2, "allowed-origins": '["*"]' },
      },
    ],
    ["a false for a default of the role", { role: "trtllm-serve", options: { "return-perf-metrics": false } }],
    [
      "triggers and behaviour of one's own",
      {
        "keda.enabled": true,
        "keda.triggers": [{ query: "vector(1)", threshold: "1", metricType: "Value" }],
      },
    ],
  ])("%s: the objects are valid, and the server accepts its options", (_, values) => {
    const rendered = template(values);
    const errors = kubectlErrors(tools, rendered);
    expect(rendered.flatMap(({ kind }, at) => (errors[at] === "" ? [] : `${kind}: ${errors[at]}`))).toEqual([]);
    const { resolved, options } = workloadIn(rendered)!;
    expect(resolved).toMatchObject({ ignored: [], notices: [] });
    for (const [name, value] of Object.entries((values as { options?: object }).options ?? {}))
      expect([name, String(options[name])]).toEqual([name, Array.isArray(value) ? expect.any(String) : String(value)]);
  });
});

/** Writes a path as the API server does: `spec.ports[0].port`. */
const inBrackets = (path: readonly (string | number)[]) =>
  path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`))
    .join("")
    .slice(1);

test("a missing Go is named, with the word that leaves it out", () => {
  expect(() => required(null)).toThrow(
    /^Go 1\.\d+ or later is missing .*; not counted: Helm, kubectl-validate; --without-go/,
  );
  expect(required("/usr/bin/go")).toBe("/usr/bin/go");
});
