/**
 * Reads a mapping of names: which family of an engine of somebody's own stands for which family of a dialect. Refuses a
 * mapping whose targets no law knows, because a misspelt one would make the check pass for nothing.
 */
import { dialects } from "./dialects.ts";
import type { ScrapedLabels } from "./exposition.ts";
import { familyNames } from "./families.ts";
import type { DialectName } from "./law.ts";
import { readSample } from "./sample-line.ts";

/** Names of an engine's families and labels, and what they stand for. */
export interface NameMap {
  /** The dialect whose laws shall apply: `vllm`, `trtllm-serve`, `triton`, `trtllm` or `dynamo-frontend`. */
  readonly dialect: DialectName;
  /**
   * The dialect's family, by the family of the page. The dialect's prefix may be left out. Labels in braces are added to
   * the series: `{"my_failed_total": "request_success_total{finished_reason=\"error\"}"}`.
   */
  readonly families: Readonly<Record<string, string>>;
  /** The dialect's label, by the label of the page; for the families of the mapping. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** A family's name in its dialect. */
export interface MappedName {
  readonly name: string;
  /** Labels that its series get. */
  readonly labels: ScrapedLabels;
  /** Entry of the mapping; null if a rule for prefixes gave the name. */
  readonly key: string | null;
}

const MAPPABLE = Object.keys(familyNames).filter((name) => name !== "vllm-router");
const KEYS = ["dialect", "families", "labels"];
const PART = /_(bucket|sum|count|created)$/;
const LABEL = /^[a-zA-Z_]\w*$/;

/** The name that the mapping gives to a family of the page; null if it gives none. */
export function mappedName(map: NameMap, family: string): MappedName | null {
  if (Object.hasOwn(map.families, family)) return targetOf(map, family, "");
  // OpenMetrics leaves out the ending in the family's name, and the mapping may have it.
  const counter = `${family}_total`;
  if (Object.hasOwn(map.families, counter)) {
    const target = targetOf(map, counter, "");
    return { ...target, name: target.name.replace(/_total$/, "") };
  }
  // Without a # TYPE each part of a histogram is a family.
  const [part] = PART.exec(family) ?? [];
  const whole = part === undefined ? family : family.slice(0, -part.length);
  return part !== undefined && Object.hasOwn(map.families, whole) ? targetOf(map, whole, part) : null;
}

function targetOf(map: NameMap, key: string, part: string): MappedName {
  const { name, labels } = readTarget(map.families[key]!)!;
  const prefix = prefixOf(map.dialect);
  return { name: (name.startsWith(prefix) ? name : prefix + name) + part, labels, key };
}

/** The families of TensorRT-LLM's backend have two prefixes, which begin alike. */
const prefixOf = (dialect: DialectName): string =>
  dialect === "trtllm" ? "nv_" : dialects.find(({ name }) => name === dialect)!.prefix;

function readTarget(text: string): { readonly name: string; readonly labels: ScrapedLabels } | null {
  const sample = readSample(`${text} 0`, 1, "text");
  return typeof sample === "string" || sample.timestamp !== null ? null : sample;
}

/** Returns the mapping, or the sentence that refuses it. Never throws. */
export function readNameMap(json: unknown): NameMap | string {
  if (!isRecord(json)) return `must be an object with dialect, families and, optionally, labels`;
  const odd = Object.keys(json).find((key) => !KEYS.includes(key));
  if (odd !== undefined) return `"${odd}" is unknown; accepted are ${KEYS.join(", ")}`;
  const { dialect, families, labels = {} } = json;
  if (typeof dialect !== "string" || !MAPPABLE.includes(dialect))
    return `dialect ${JSON.stringify(dialect) ?? "is missing; it"} must be one of ${MAPPABLE.join(", ")}`;
  if (!isTexts(families) || Object.keys(families).length === 0)
    return "families must be an object of names, with at least one";
  if (!isTexts(labels)) return "labels must be an object of names";
  const map = { dialect: dialect as DialectName, families, labels };
  for (const [name, text] of Object.entries(families)) {
    if (readTarget(text) === null)
      return `families: "${name}": "${text}" must be a name, or a name with {label="value"}`;
    const own = targetOf(map, name, "").name.slice(prefixOf(map.dialect).length);
    if (!familyNames[map.dialect]!.has(own)) return `families: "${name}": ${map.dialect} has no family "${text}"`;
  }
  const badLabel = Object.entries(labels).find((pair) => !pair.every((label) => LABEL.test(label)));
  if (badLabel !== undefined) return `labels: "${badLabel[0]}": "${badLabel[1]}" must be names of labels`;
  return map;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTexts = (value: unknown): value is Record<string, string> =>
  isRecord(value) && Object.values(value).every((text) => typeof text === "string");
