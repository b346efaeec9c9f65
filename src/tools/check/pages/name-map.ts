/**
 * Reads a mapping of names: which family of a custom engine stands for which family of a dialect. Refuses a family that the
 * dialect does not have, because a misspelt one would silently weaken the check.
 */
import { isObject } from "../../../base/json-object.ts";
import { dialects } from "./dialects.ts";
import type { ScrapedLabels } from "./exposition.ts";
import { familyNames } from "./families.ts";
import type { DialectName } from "./law.ts";
import { readSample } from "./sample-line.ts";

/** Mapping from the family and label names of a custom engine to those of a dialect. */
export interface NameMap {
  /** Dialect whose laws apply: `vllm`, `trtllm-serve`, `triton`, `trtllm` or `dynamo-frontend`. */
  readonly dialect: DialectName;
  /**
   * Maps a family of the page to a family of the dialect, whose prefix may be left out. Labels in braces are added to its
   * series: `{"my_failed_total": "request_success_total{finished_reason=\"error\"}"}`.
   */
  readonly families: Readonly<Record<string, string>>;
  /** Maps a label of the page to a label of the dialect, for the mapped families. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** The dialect's name for a family of the page. */
export interface MappedName {
  readonly name: string;
  /** Labels to add to its series. */
  readonly labels: ScrapedLabels;
  /** Key of the entry in the mapping. Null if the name came from a prefix rule. */
  readonly key: string | null;
}

const MAPPABLE = Object.keys(familyNames).filter((name) => name !== "vllm-router");
const KEYS = ["dialect", "families", "labels"];
const PART = /_(bucket|sum|count|created)$/;
const LABEL = /^[a-zA-Z_]\w*$/;

/** Returns the name that the mapping gives to a family of the page. Null if it gives none. */
export function mappedName(map: NameMap, family: string): MappedName | null {
  if (Object.hasOwn(map.families, family)) return targetOf(map, family, "");
  // OpenMetrics leaves `_total` out of the family's name. The mapping may have it.
  const counter = `${family}_total`;
  if (Object.hasOwn(map.families, counter)) {
    const target = targetOf(map, counter, "");
    return { ...target, name: target.name.replace(/_total$/, "") };
  }
  // Without a TYPE line each part of a histogram is a family of its own.
  const [part] = PART.exec(family) ?? [];
  const whole = part === undefined ? family : family.slice(0, -part.length);
  return part !== undefined && Object.hasOwn(map.families, whole) ? targetOf(map, whole, part) : null;
}

function targetOf(map: NameMap, key: string, part: string): MappedName {
  const { name, labels } = readTarget(map.families[key]!)!;
  const prefix = prefixOf(map.dialect);
  return { name: (name.startsWith(prefix) ? name : prefix + name) + part, labels, key };
}

/** The families of TensorRT-LLM's backend have two prefixes. Both begin with `nv_`. */
const prefixOf = (dialect: DialectName): string =>
  dialect === "trtllm" ? "nv_" : dialects.find(({ name }) => name === dialect)!.prefix;

function readTarget(text: string): { readonly name: string; readonly labels: ScrapedLabels } | null {
  const sample = readSample(`${text} 0`, 1, "text");
  return typeof sample === "string" || sample.timestamp !== null ? null : sample;
}

/** Validates a mapping. Returns it, or a sentence that says why it is refused. Never throws. */
export function readNameMap(json: unknown): NameMap | string {
  if (!isObject(json)) return `must be an object with dialect, families and, optionally, labels`;
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
    const family = targetOf(map, name, "").name.slice(prefixOf(map.dialect).length);
    if (!familyNames[map.dialect]!.has(family)) return `families: "${name}": ${map.dialect} has no family "${text}"`;
  }
  const badLabel = Object.entries(labels).find((pair) => !pair.every((label) => LABEL.test(label)));
  if (badLabel !== undefined) return `labels: "${badLabel[0]}": "${badLabel[1]}" must be names of labels`;
  return map;
}

const isTexts = (value: unknown): value is Record<string, string> =>
  isObject(value) && Object.values(value).every((text) => typeof text === "string");
