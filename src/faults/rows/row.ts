/** Positions, sources and parameters that several rows of the fault table share. */
import {
  ANSWER_DIALECTS,
  type FaultCarrier,
  type FaultParameter,
  type FaultRow,
  type FaultRule,
  type FaultStage,
  type PlannedFault,
  type PositionKind,
} from "../plan/types.ts";

export const AT_EVENTS: readonly PositionKind[] = ["head", "event", "done", "every", "drawn", "chance"];
const AT_PLACES: readonly PositionKind[] = [...AT_EVENTS, "byte"];
const AT_HEAD: readonly PositionKind[] = ["head"];
export const AT_ONCE: readonly PositionKind[] = ["head", "event", "done", "drawn", "chance", "byte"];

/** Section of the HTML standard on line ends, encoding and segments of an event stream. */
export const SSE_PARSING = "WHATWG HTML, 9.2.5";
/** Section of the HTML standard on decoding, comments, fields and the dispatch of events. */
export const SSE_READING = "WHATWG HTML, 9.2.6";
export const RFC9110 = "RFC 9110";
export const RFC9112 = "RFC 9112";
export const RFC9113 = "RFC 9113";
export const JSON_TEXT = "RFC 8259";
/** Source of the rule "The stream is terminated by a `data: [DONE]` message." */
export const OPENAI_STREAM = "OpenAI API reference, `stream`";
export const OPENAI_CHUNK = "OpenAI API reference, chunk object";
/** Source of a rule if no specification says what a correct client does. We do not judge clients: the verdict is `policy`. */
export const POLICY = "policy";
/** Source of a rule if no specification says what a correct client does, but we judge clients. The row states the rule. */
export const OUR_RULE = "our rule";
/** Rule of a row for which no standard says what a client must do. The client passes with a correct result or with an error. */
export const EITHER = { text: OUR_RULE, allows: "either" } as const;
/** Position of a fault that can act only at the last event. */
export const AT_LAST = { positions: ["done"], position: "done" } as const satisfies Partial<FaultRow>;

export const oneOf = (...words: readonly string[]): FaultParameter => ({ name: "how", type: "word", words });
/** Makes a kind of number as a parameter, with the limits of those that state none. */
const amount =
  (type: "time" | "size" | "count", mostOfKind: number, leastOfKind: number) =>
  (name: string, usual: number, most = mostOfKind, least = leastOfKind): FaultParameter => {
    return { name, type, default: usual, least, most };
  };
export const time = amount("time", 3600e6, 0);
export const size = amount("size", 12e6, 1);
export const count = amount("count", 10_000, 1);

/** Error codes that HTTP/2 has for a stream or a connection (RFC 9113, section 7), by the word in a plan. */
export const STREAM_CODES: Readonly<Record<string, number>> = {
  internal: 2,
  none: 0,
  protocol: 1,
  refused: 7,
  cancel: 8,
  calm: 11,
};

/**
 * Ids of faults that gRPC calls cannot have, because gRPC messages have no line ends, and no request waits for its connection.
 */
const NOT_OF_MESSAGES = ["B7", "E9"];

/**
 * Reports whether the fault can act over this protocol. Over gRPC, only gRPC's own faults can act, and faults that cut, delay
 * or end the bytes.
 */
export function actsOn({ id, http, stage }: FaultRow, over: FaultCarrier): boolean {
  if (over !== "grpc") return http === "any" || http === over;
  return (stage === "grpc" || stage === "segments" || stage === "end") && !NOT_OF_MESSAGES.includes(id);
}

/** Returns the parameter whose words select the variants of the fault. Undefined if the fault has no variants. */
const wayParameter = ({ parameters }: Pick<FaultRow, "parameters">) =>
  parameters.find((parameter) => parameter.type === "word");

/** Returns the rule of the variant that the word `way` selects. Returns the row's own rule if `way` selects no variant. */
function ruleOf(row: FaultRow, way: string): FaultRule {
  const { what, oracle, text, allows } = row;
  return { what, oracle, text, allows, ...row.ways[way] };
}

/** Returns the rule that applies to a planned fault with its parameters. */
export function plannedRule({ row, values }: PlannedFault): FaultRule {
  const name = wayParameter(row)?.name;
  return ruleOf(row, name === undefined ? "" : `${values[name]}`);
}

/**
 * Returns the rules of all variants, in the order of the words that select them. If the fault has no variants, returns the
 * row's own rule.
 */
export function faultRulesOf(row: FaultRow): { readonly way: string; readonly rule: FaultRule }[] {
  const words = wayParameter(row)?.words ?? [""];
  return words.map((way) => ({ way, rule: ruleOf(row, way) }));
}

type WayInputs = Readonly<Record<string, string | Partial<FaultRule>>>;
type RowInput = Pick<FaultRow, "oracle" | "text"> & Partial<Omit<FaultRow, "ways">> & { readonly ways?: WayInputs };

/**
 * Makes a row of the table. The words of `ways` become the first parameter, `how`, unless `parameters` already has these
 * words. A row lists the words in `parameters` if the parameter has another name, or if the words are numbers, because an
 * object does not keep the order of numbers. `allows` is "policy" exactly if `text` is "policy".
 */
export function faultRow(id: string, stage: FaultStage, what: string, input: RowInput): FaultRow {
  const { positions = positionsIn(stage), parameters = [], text } = input;
  const { allows = text === POLICY ? "policy" : null } = input;
  const words = Object.keys(input.ways ?? {});
  const isNamed =
    words.length === 0 ||
    parameters.some((parameter) => parameter.type === "word" && words.includes(parameter.words[0]!));
  return {
    id,
    stage,
    what,
    positions,
    inside: false,
    position: positions.includes("drawn") ? "?" : "head",
    dialects: ANSWER_DIALECTS,
    reaches: "answer",
    http: "any",
    excludes: "",
    ...input,
    allows,
    parameters: isNamed ? parameters : [oneOf(...words), ...parameters],
    ways: Object.fromEntries(Object.entries(input.ways ?? {}).map(([word, way]) => [word, wayOf(way, allows)])),
  };
}

/**
 * Completes a variant of a fault. `allows`: value of the row. A variant with a source of its own gets `allows` "policy" only if
 * that source is "policy".
 */
function wayOf(input: string | Partial<FaultRule>, allows: FaultRule["allows"]): Partial<FaultRule> {
  const way = typeof input === "string" ? { what: input } : input;
  if (way.text === POLICY) return { ...way, allows: "policy" };
  return way.text !== undefined && allows === "policy" ? { allows: null, ...way } : way;
}

function positionsIn(stage: FaultStage): readonly PositionKind[] {
  if (stage === "events" || stage === "text") return AT_EVENTS;
  if (stage === "segments") return AT_PLACES;
  return stage === "end" ? AT_ONCE : AT_HEAD;
}
