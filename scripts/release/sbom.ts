/**
 * Lists everything that a release contains, each part with its licence: the libraries in the bundles, Bun with the libraries
 * that it links, and the vocabulary. The form is CycloneDX 1.6 in JSON (ECMA-424).
 */
import { createHash } from "node:crypto";
import type { PackedPart } from "../packed-notice.ts";

interface SbomInput {
  readonly version: string;
  readonly commit: string;
  readonly commitS: number;
  readonly repository: string;
  /** Parts by the work in which they are packed: a package, or "understudy" for the single files. */
  readonly parts: Readonly<Record<string, readonly PackedPart[]>>;
  /** Text of bun.lock, which has the checksums of the packages. */
  readonly lock: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Returns the package URL of an npm package. */
export const purl = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`;

/** Returns the licences in the form of CycloneDX. A name without spaces counts as an id of SPDX. */
function licences(licence: string | null, text?: string): Json[] {
  const content = text === undefined ? {} : { text: { content: text } };
  if (licence === null) return [{ license: { name: "several licences", ...content } }];
  if (/ (AND|OR|WITH) /.test(licence)) return [{ expression: licence }];
  return [{ license: { id: licence, ...content } }];
}

/** Returns the checksum that bun.lock has for a package. Empty if it has none. */
function hashes(name: string, version: string, lock: string): Json[] {
  const line = lock.split("\n").find((text) => text.includes(`["${name}@${version}"`));
  const [, base64] = /"sha512-([^"]+)"/.exec(line ?? "") ?? [];
  return base64 === undefined ? [] : [{ alg: "SHA-512", content: Buffer.from(base64, "base64").toString("hex") }];
}

/** Returns the libraries that Bun's list names as linked or embedded. Their versions are Bun's own choice. */
function insideBun({ text, version }: PackedPart): Json[] {
  const rows = [...text.matchAll(/^\| (?:[^|[]*)\[`?([^\]`]+)`?\]\(([^)]+)\)[^|]*\| +(.*?) +\|$/gm)];
  const linked = rows.map(([, name, url, licence]) => ({
    type: "library",
    "bom-ref": `bun@${version}/${name}`,
    name,
    licenses: [{ license: { name: licence!.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1") } }],
    externalReferences: [{ type: "website", url }],
  }));
  const core = { type: "library", "bom-ref": `bun@${version}/JavaScriptCore`, name: "JavaScriptCore" };
  return [{ ...core, licenses: [{ license: { name: "LGPL-2" } }] }, ...linked];
}

function componentOf(part: PackedPart, where: readonly string[], lock: string): Json {
  const { name, version, kind, licence, text } = part;
  const properties = [
    { name: "understudy:in", value: where.join(", ") },
    { name: "understudy:as", value: part.where },
  ];
  if (kind === "data") return { type: "data", "bom-ref": name, name, licenses: licences(licence, text), properties };
  const [, group, own = name] = /^(@[^/]+)\/(.*)$/.exec(name) ?? [];
  const [id, isRuntime] = [purl(name, version!), kind === "runtime"];
  return {
    ...{ type: isRuntime ? "platform" : "library", "bom-ref": id },
    ...(group && { group }),
    ...{ name: own, version, hashes: hashes(name, version!, lock) },
    licenses: licences(licence, isRuntime ? text : undefined),
    ...{ purl: id, properties },
    ...(isRuntime && { components: insideBun(part) }),
  };
}

export function sbomOf({ version, commit, commitS, repository, parts, lock }: SbomInput): Json {
  const places = new Map<string, { readonly part: PackedPart; readonly where: string[] }>();
  for (const [work, all] of Object.entries(parts))
    for (const part of all) {
      const key = `${part.name} ${part.version}`;
      if (!places.has(key)) places.set(key, { part, where: [] });
      places.get(key)!.where.push(work);
    }
  const components = [...places.values()]
    .map(({ part, where }) => componentOf(part, where, lock))
    .sort((a, b) => ((a["bom-ref"] as string) < (b["bom-ref"] as string) ? -1 : 1));
  const root = purl("llm-understudy", version);
  const digest = createHash("sha256").update(`${commit} ${version}`).digest("hex");
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(digest)}`,
    version: 1,
    metadata: {
      timestamp: new Date(commitS * 1000).toISOString(),
      component: {
        ...{ type: "application", "bom-ref": root, name: "llm-understudy", version, purl: root },
        licenses: licences("Apache-2.0"),
        externalReferences: [{ type: "vcs", url: repository }],
      },
    },
    components,
    dependencies: [{ ref: root, dependsOn: components.map(({ "bom-ref": ref }) => ref) }],
  };
}

/** Makes a UUID of version 8 (RFC 9562), whose bits may be chosen freely, from a hexadecimal digest. */
const uuidOf = (hex: string): string =>
  [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join("-");
