/**
 * Chooses vLLM's grammar library for a schema. vLLM uses XGrammar, or llguidance for schemas that XGrammar does not support.
 * Source: vLLM 0.33, `v1/structured_output/backend_xgrammar.py` (has_xgrammar_unsupported_json_features).
 */
import { isKeywords, type Keywords } from "./schema.ts";

const ARRAY_KEYS = ["uniqueItems", "contains", "minContains", "maxContains"];
const BOTH = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
const XGRAMMAR_FORMATS = new Set([...BOTH, "uri-reference", "uri-template", "json-pointer", "relative-json-pointer"]);
/** Formats that llguidance 1.7.6 supports. */
export const GUIDANCE_FORMATS: ReadonlySet<string> = new Set([...BOTH, "unknown"]);

/** Reports whether llguidance gets the schema: if XGrammar lacks a keyword of it. With `patternProperties` Outlines gets it. */
export function needsGuidance(schema: Keywords): boolean {
  const rest: Keywords[] = [schema];
  let isBeyond = false;
  for (let part = rest.pop(); part !== undefined; part = rest.pop()) {
    if ("patternProperties" in part) return false;
    isBeyond ||= isBeyondXgrammar(part);
    for (const value of Object.values(part))
      for (const inner of [value].flat()) if (isKeywords(inner)) rest.push(inner);
  }
  return isBeyond;
}

function isBeyondXgrammar(schema: Keywords): boolean {
  const types = [schema.type].flat();
  if ("multipleOf" in schema && (types.includes("integer") || types.includes("number"))) return true;
  if (types.includes("array") && ARRAY_KEYS.some((key) => key in schema)) return true;
  if (types.includes("string")) {
    if ("format" in schema && !XGRAMMAR_FORMATS.has(schema.format as string)) return true;
    if (isBoundedForm(schema)) return true;
  }
  if (types.includes("object") && "propertyNames" in schema) {
    const { propertyNames: names } = schema;
    if ("properties" in schema || (isKeywords(names) && isBoundedForm(names))) return true;
    if ((schema.unevaluatedProperties ?? true) !== true) return true;
  }
  return Array.isArray(schema.allOf) && schema.allOf.length >= 2;
}

function isBoundedForm(schema: Keywords): boolean {
  return ("pattern" in schema || "format" in schema) && ("minLength" in schema || "maxLength" in schema);
}
