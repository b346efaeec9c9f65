/**
 * Writes the files that are made for Kubernetes. `npx bun scripts/chart.ts` writes the chart's `values.schema.json` and its
 * copies of dashboards and rules, so that the chart needs no other folder. With `--helm FILE` it also renders the chart into
 * `deploy/kubernetes/`. Tests compare all of these.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { CHART, valuesSchemaText } from "./chart-schema.ts";

const root = new URL("../", import.meta.url).pathname;
/** Values files that are rendered, by the name of the release. */
export const RENDERED = ["vllm", "triton", "gateway"] as const;
/** Rendered releases that only tests use. Together with `RENDERED` they contain every kind of object and every role. */
export const RENDERED_FOR_TESTS = ["trtllm", "engine"] as const;
const isForTests = (release: string): boolean => RENDERED_FOR_TESTS.some((name) => name === release);
const MANIFESTS = "deploy/kubernetes/";
const TEST_MANIFESTS = "test/kubernetes/manifests/";

/**
 * Names of the files of rendered objects, by the API group of the objects. Objects of other groups are in `server`, because every
 * cluster knows those.
 */
const FILES: Readonly<Record<string, string>> = {
  "monitoring.coreos.com": "prometheus-operator",
  "keda.sh": "keda",
  "inference.networking.k8s.io": "gateway",
  "llm-d.ai": "gateway",
  "gateway.networking.k8s.io": "gateway",
};

/** Returns the files that the chart's folder has as copies, each with the path of its original, from the repository's root. */
export function chartCopies(): ReadonlyMap<string, string> {
  const copies = [
    ["deploy/grafana/", "deploy/helm/understudy/files/grafana/"],
    ["deploy/prometheus/rules/", "deploy/helm/understudy/files/rules/"],
  ].flatMap(([from, to]) => readdirSync(root + from).map((name) => [to + name, from + name] as const));
  return new Map(copies);
}

/**
 * Returns a digest of the files on which the rendered manifests depend. The first line of each manifest has it, so that a test
 * finds manifests that are older than the chart.
 */
export function chartDigest(): string {
  const names = readdirSync(CHART, { recursive: true, encoding: "utf8", withFileTypes: true })
    // A new option changes the schema, but not the output.
    .filter((entry) => entry.isFile() && entry.name !== "values.schema.json")
    .map((entry) => `${entry.parentPath.replace(/\/$/, "")}/${entry.name}`.slice(CHART.length))
    .sort();
  const hasher = new Bun.CryptoHasher("sha256");
  for (const name of names) hasher.update(`${name}\0${readFileSync(CHART + name, "utf8")}\0`);
  for (const release of RENDERED_FOR_TESTS) hasher.update(readFileSync(root + valuesOf(release), "utf8"));
  return hasher.digest("hex").slice(0, 16);
}

/** Returns the values file of a release, from the repository's root. */
export const valuesOf = (release: string): string =>
  isForTests(release) ? `${TEST_MANIFESTS}values-${release}.yaml` : `deploy/helm/understudy/values-${release}.yaml`;

/** Arguments of `helm template`. They name a version of Kubernetes, because a Helm that `go install` has built knows none. */
export const TEMPLATE = ["template", "--kube-version", "1.37.0"] as const;

/** Runs `helm` with the arguments `words`, in the repository's root. Returns what it prints. Throws its message if it fails. */
export function runHelm(helm: string, ...words: readonly string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([helm, ...words], { cwd: root });
  if (exitCode !== 0) throw new Error(stderr.toString());
  return stdout.toString();
}

/** Splits the output of `helm template` into files. Returns their texts, by path from the repository's root. */
export function manifestsOf(release: string, output: string): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  const folder = isForTests(release) ? TEST_MANIFESTS : MANIFESTS;
  const head = `# Rendered from the chart with ${valuesOf(release)} by scripts/chart.ts. Chart: ${chartDigest()}\n`;
  for (const document of output.split(/^---\n/m)) {
    const [, group = ""] = /^apiVersion: (?:(\S+)\/)?\S+$/m.exec(document) ?? [];
    if (!/^kind: /m.test(document)) continue;
    const path = `${folder}${release}/${FILES[group] ?? "server"}.yaml`;
    const trimmed = document.replace(/^# Source: .*\n/m, "").trim();
    texts.set(path, `${texts.get(path) ?? head}---\n${trimmed}\n`);
  }
  return texts;
}

/**
 * Renders the chart with the values of all releases. Returns the texts of the manifests, by path from the repository's root.
 */
export function render(helm: string): ReadonlyMap<string, string> {
  const releases = [...RENDERED, ...RENDERED_FOR_TESTS];
  return new Map(
    releases.flatMap((release) => [
      ...manifestsOf(release, runHelm(helm, ...TEMPLATE, release, CHART, "-f", valuesOf(release))),
    ]),
  );
}

function write(path: string, text: string): void {
  mkdirSync(dirname(root + path), { recursive: true });
  writeFileSync(root + path, text);
}

if (import.meta.main) {
  write("deploy/helm/understudy/values.schema.json", valuesSchemaText());
  for (const [to, from] of chartCopies()) write(to, readFileSync(root + from, "utf8"));
  const [flag, helm] = process.argv.slice(2);
  if (flag === "--helm" && helm !== undefined) {
    rmSync(root + MANIFESTS, { recursive: true, force: true });
    for (const [path, text] of render(helm)) write(path, text);
  }
}
