/**
 * Reads GenAI spans of OpenTelemetry (semantic conventions 1.37, `gen_ai.*`): as OTLP JSON (`resourceSpans`), as
 * objects with `spans`, or as one span per object. Calls of a model become requests at their start times. Other spans
 * are skipped. Contents of prompts are not read, so no two prompts share a block.
 */
import { jsonObjectIn, type LooseObject, looseList, looseObject, shownJson } from "../base/json-object.ts";
import type { Element } from "./elements.ts";
import { SORTED_MOST, SortedRequests } from "./sorted.ts";
import { isCount, notThis, type TraceItem } from "./trace.ts";

const EXPECTED =
  'spans, such as {"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "…", "attributes": […]}]}]}]} or {"spans": [{"start_time": "2026-05-01T10:00:00Z", "attributes": {"gen_ai.usage.input_tokens": 12, …}}]}';
/** Operations that are calls of a language model. */
const CALLS = ["chat", "text_completion", "generate_content"];
const INPUT = ["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"];
const OUTPUT = ["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"];
const ERRORS: readonly unknown[] = ["ERROR", "STATUS_CODE_ERROR", 2];
/** Latest time in microseconds since 1970 that a double holds exactly. */
const LATEST_US = Number.MAX_SAFE_INTEGER;

export const isOtelHead = (head: string): boolean =>
  /^[[{]/.test(head) &&
  (/"resource_?[sS]pans"\s*:/.test(head) || (/"attributes"\s*:/.test(head) && /"gen_ai\./.test(head)));

/** `skipRow` is called with the reason for each span that is not a call of a model. Throws a TraceError for more than `most` calls. */
export function* otel(
  objects: Iterable<Element>,
  skipRow: (reason: string) => void,
  most = SORTED_MOST,
): Generator<TraceItem> {
  const sorted = new SortedRequests("an otel trace", most);
  for (const { line, text } of objects) {
    const spans = spansOf(jsonObjectIn(text));
    if (spans === null) {
      yield { line, expected: EXPECTED };
      continue;
    }
    for (const value of spans) {
      const span = looseObject(value);
      const call = span === null ? notThis("a span, which is an object", value) : callOf(span);
      if (typeof call === "string") yield { line, expected: call };
      else if ("reason" in call) skipRow(call.reason);
      else sorted.add(line, call.arrivalUs, call.promptTokens, call.outputTokens);
    }
  }
  yield* sorted.byArrival();
}

/** Returns all spans of an object, or null if it has none of the known forms. */
function spansOf(row: LooseObject | null): readonly unknown[] | null {
  if (row === null) return null;
  const resources = row.resourceSpans ?? row.resource_spans;
  if (Array.isArray(resources)) {
    const scopes = resources
      .map(looseObject)
      .flatMap((resource) => looseList(resource?.scopeSpans ?? resource?.scope_spans));
    return scopes.flatMap((scope) => looseList(looseObject(scope)?.spans));
  }
  if (Array.isArray(row.spans)) return row.spans;
  return row.attributes === undefined ? null : [row];
}

type Call = { readonly arrivalUs: number; readonly promptTokens: number; readonly outputTokens: number };

/** Returns a call of a model, or the reason why the span is skipped. If a value is wrong, returns the condition that it fails. */
function callOf(span: LooseObject): Call | { readonly reason: string } | string {
  const attributes = attributesOf(span.attributes);
  const operation = attributes.get("gen_ai.operation.name");
  if (![...attributes.keys()].some((key) => key.startsWith("gen_ai."))) return { reason: "no gen_ai attributes" };
  if (operation !== undefined && !(CALLS as readonly unknown[]).includes(operation)) {
    return { reason: `operation is ${typeof operation === "string" ? operation : shownJson(operation)}` };
  }
  if (ERRORS.includes(looseObject(span.status)?.code)) return { reason: "status is an error" };
  const [promptTokens, outputTokens] = [INPUT, OUTPUT].map((names) =>
    names.map((name) => attributes.get(name)).find((value) => value !== undefined),
  );
  for (const [name, tokens] of [
    [INPUT[0]!, promptTokens],
    [OUTPUT[0]!, outputTokens],
  ] as const) {
    if (tokens === undefined || tokens === 0) return { reason: tokens === 0 ? `${name} is 0` : `no ${name}` };
    if (!isCount(tokens, 1)) return notThis(`"${name}": a whole number`, tokens);
  }
  const start = span.startTimeUnixNano ?? span.start_time_unix_nano ?? span.start_time ?? span.startTime;
  const arrivalUs = microsecondsOf(start);
  if (arrivalUs === null) {
    return notThis(
      '"startTimeUnixNano": nanoseconds since 1970, or "start_time": a time as in 2026-05-01T10:00:00Z',
      start,
    );
  }
  return { arrivalUs, promptTokens: promptTokens as number, outputTokens: outputTokens as number };
}

/** Reads attributes from an object, or from OTLP's list of keys and typed values, which writes whole numbers as texts. */
function attributesOf(attributes: unknown): ReadonlyMap<string, unknown> {
  if (!Array.isArray(attributes)) return new Map(Object.entries(looseObject(attributes) ?? {}));
  return new Map(
    attributes.map((attribute) => {
      const { key, value } = looseObject(attribute) ?? {};
      const { stringValue, intValue, doubleValue, boolValue } = looseObject(value) ?? {};
      const whole = typeof intValue === "string" && /^\d{1,15}$/.test(intValue) ? Number(intValue) : intValue;
      return [typeof key === "string" ? key : "", stringValue ?? whole ?? doubleValue ?? boolValue];
    }),
  );
}

/**
 * Returns microseconds since 1970. Accepts nanoseconds (text or number), seconds with nanoseconds, or an ISO time.
 * Returns null for anything else.
 */
function microsecondsOf(value: unknown): number | null {
  let us = Number.NaN;
  if (Array.isArray(value) && value.every((part) => typeof part === "number")) {
    const [seconds = Number.NaN, nanoseconds = 0] = value;
    us = seconds * 1e6 + Math.floor(nanoseconds / 1000);
  }
  if (typeof value === "number") us = Math.floor(value / 1000);
  else if (typeof value === "string" && /^\d{1,20}$/.test(value)) us = Number(BigInt(value) / 1000n);
  else if (typeof value === "string") us = isoMicroseconds(value);
  return us >= 0 && us <= LATEST_US ? us : null;
}

/** Parses an ISO time. A time without a zone is UTC. Returns NaN if the text is not a time. */
function isoMicroseconds(text: string): number {
  const [, time, fraction = "", zone = "Z"] =
    /^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$/.exec(text) ?? [];
  if (time === undefined) return Number.NaN;
  return Date.parse(`${time.replace(" ", "T")}${zone}`) * 1000 + Math.floor(Number(`0${fraction}`) * 1e6);
}
