/**
 * Reads the rendered manifests, and checks objects: Kubernetes' own kinds by the Python package kubernetes-validate, the others
 * by the schemas of their CRDs in `crds/`. Those in `crds/ours/` are not the projects' schemas but ours.
 */
import { existsSync, readFileSync } from "node:fs";
import Ajv, { type AnySchema } from "ajv";
import { parse, parseAllDocuments } from "yaml";

export const root = new URL("../../", import.meta.url).pathname;
/** Folder with a folder of CRDs for each project. */
export const CRDS = `${root}test/kubernetes/crds/`;
const python = `${root}.venv-kubernetes/bin/python`;
/** True if the Python environment is missing outside CI. CI always has it (test/clients/requirements/kubernetes.txt). */
export const isPythonMissing = !existsSync(python) && process.env.CI === undefined;
/** Oldest version that Chart.yaml allows, and the newest version that kubernetes-validate knows. */
const VERSIONS = ["1.29", "1.37"];

/** A value of YAML. Tests look at objects of many kinds, so members are not typed. */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type Yaml = any;

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly [member: string]: Yaml;
}

/** Parses a file of objects. Throws if it is not YAML or has a key twice. */
export function objectsIn(text: string): KubernetesObject[] {
  return parseAllDocuments(text, { logLevel: "error" }).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    const object = document.toJS();
    return object === null ? [] : [object];
  });
}

/** Reads the rendered objects, by path of the file from the root. */
export function readManifests(): ReadonlyMap<string, readonly KubernetesObject[]> {
  const paths = ["deploy/kubernetes", "test/kubernetes/manifests"].flatMap((folder) => [
    ...new Bun.Glob(`${folder}/*/*.yaml`).scanSync(root),
  ]);
  return new Map(paths.sort().map((path) => [path, objectsIn(readFileSync(root + path, "utf8"))]));
}

/** Keyword of CRDs: names of the members by which the items of a list must differ. */
const LIST_KEYS = "x-kubernetes-list-map-keys";
const isRemark = (key: string) => /^(x-kubernetes|description|default|format)/.test(key) && key !== LIST_KEYS;

/** Returns a schema of an API as a JSON schema that refuses unknown members, as `kubectl apply` does by default. */
function strict(schema: Yaml): AnySchema {
  if (Array.isArray(schema)) return schema.map(strict) as unknown as AnySchema;
  if (typeof schema !== "object" || schema === null) return schema;
  const { properties, items, additionalProperties, nullable, ...rest } = schema;
  const result: Yaml = { ...rest };
  for (const key of Object.keys(result)) if (isRemark(key)) delete result[key];
  for (const key of ["anyOf", "allOf", "oneOf", "not"]) if (result[key]) result[key] = loose(result[key]);
  if (schema["x-kubernetes-int-or-string"]) result.type = ["integer", "string"];
  if (nullable) result.type = [result.type, "null"];
  if (items) result.items = strict(items);
  if (additionalProperties !== undefined) result.additionalProperties = strict(additionalProperties);
  if (properties) {
    result.properties = Object.fromEntries(Object.entries(properties).map(([name, member]) => [name, strict(member)]));
    if (additionalProperties === undefined && !schema["x-kubernetes-preserve-unknown-fields"])
      result.additionalProperties = false;
  }
  return result;
}

/** Returns a part of a schema that only adds conditions, so that unknown members are not its concern. */
function loose(schema: Yaml): Yaml {
  if (Array.isArray(schema)) return schema.map(loose);
  if (typeof schema !== "object" || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => !isRemark(key))
      .map(([key, value]) => [key, loose(value)]),
  );
}

const compilers = new Map<string, ReturnType<Ajv["compile"]>>();
/** Makes a pattern of Go. `(?i)` in it ignores case from there on; in our CRDs nothing precedes it that has a case. */
const goPattern = (pattern: string) => new RegExp(pattern.replace("(?i)", ""), pattern.includes("(?i)") ? "i" : "");
goPattern.code = "goPattern"; // Ajv's name for it
const ajv = new Ajv({ strict: false, validateFormats: false, code: { regExp: goPattern } });
ajv.addKeyword({
  keyword: LIST_KEYS,
  validate: (keys: readonly string[], list: readonly Yaml[]) =>
    new Set(list.map((item) => JSON.stringify(keys.map((key) => item[key])))).size === list.length,
});

/** Text of each CRD with its group, kind and versions. */
const crds = [...new Bun.Glob("*/*.yaml").scanSync(CRDS)].flatMap((name) =>
  readFileSync(CRDS + name, "utf8")
    .split(/^---\n/m)
    .filter((text) => /^kind: CustomResourceDefinition$/m.test(text))
    .map((text) => ({
      text,
      kind: /\bkind: (?!Custom)(\w+)/.exec(text)![1]!,
      group: /^ {2}group: (\S+)/m.exec(text)![1]!,
    })),
);

/** Reports whether a CRD of `crds/` describes the object. */
export const hasCrd = (object: KubernetesObject): boolean => crdOf(object) !== undefined;

const crdOf = ({ apiVersion, kind }: KubernetesObject) =>
  crds.find((crd) => crd.kind === kind && apiVersion.startsWith(`${crd.group}/`));

/** Returns the errors of an object by its CRD, each as "path: message". */
export function crdErrors(object: KubernetesObject): string[] {
  const key = `${object.apiVersion} ${object.kind}`;
  let compiled = compilers.get(key);
  if (compiled === undefined) {
    const version = parse(crdOf(object)!.text).spec.versions.find(
      ({ name, served }: Yaml) => served && object.apiVersion.endsWith(`/${name}`),
    );
    if (version === undefined) return [`apiVersion: ${object.apiVersion} is not served`];
    const { properties, ...schema } = version.schema.openAPIV3Schema;
    // The API server checks these members itself.
    const { metadata, apiVersion, kind, ...own } = properties;
    compiled = ajv.compile(strict({ ...schema, properties: { ...own, metadata: {}, apiVersion: {}, kind: {} } }));
    compilers.set(key, compiled);
  }
  if (compiled(object)) return [];
  return compiled.errors!.map(({ instancePath, message, params }) => {
    const path = instancePath.slice(1).replaceAll("/", ".");
    return `${path}: ${message} ${JSON.stringify(params)}`;
  });
}

/** Returns the errors of each object by Kubernetes' schemas, each as "version: path: message". */
export function coreErrors(objects: readonly KubernetesObject[]): string[][] {
  const stdin = Buffer.from(JSON.stringify({ versions: VERSIONS, objects }));
  const { stdout, stderr, exitCode } = Bun.spawnSync([python, `${root}test/kubernetes/validate.py`], { stdin });
  if (exitCode !== 0) throw new Error(stderr.toString());
  return JSON.parse(stdout.toString());
}

/** Returns a copy of the object with one member replaced. `path` has the names of members and the indexes of items. */
export function replaced(object: KubernetesObject, path: readonly (string | number)[], value: Yaml): KubernetesObject {
  const copy = structuredClone(object) as Yaml;
  const last = path.at(-1)!;
  let parent = copy;
  for (const part of path.slice(0, -1)) {
    parent = parent[part];
    if (parent === undefined) throw new Error(`${object.kind} has no ${path.join(".")}`);
  }
  parent[last] = value;
  return copy;
}
