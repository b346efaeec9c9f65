/** Parts that the rows of the fault table share: positions, sources and parameters. */
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
export const AT_PLACES: readonly PositionKind[] = [...AT_EVENTS, "byte"];
export const AT_HEAD: readonly PositionKind[] = ["head"];
export const AT_ONCE: readonly PositionKind[] = ["head", "event", "done", "drawn", "chance", "byte"];

/** Section on line ends, encoding and segments. */
export const SSE_PARSING = "WHATWG HTML, 9.2.5";
/** Section on decoding, comments, fields and the dispatch of events. */
export const SSE_READING = "WHATWG HTML, 9.2.6";
export const RFC9110 = "RFC 9110";
export const RFC9112 = "RFC 9112";
export const RFC9113 = "RFC 9113";
export const JSON_TEXT = "RFC 8259";
/** "The stream is terminated by a `data: [DONE]` message." */
export const OPENAI_STREAM = "OpenAI API reference, `stream`";
export const OPENAI_CHUNK = "OpenAI API reference, chunk object";
/** No specification says what is right, and we do not judge: the verdict is `policy`. */
export const POLICY = "policy";
/** No specification says what is right. We judge by our own rule, which the row states. */
export const OUR_RULE = "our rule";

export const oneOf = (...words: readonly string[]): FaultParameter => ({ name: "how", type: "word", words });
export const time = (name: string, usual: number, most = 3600e6, least = 0): FaultParameter => ({
  name,
  type: "time",
  default: usual,
  least,
  most,
});
export const size = (name: string, usual: number, most = 12e6, least = 1): FaultParameter => ({
  name,
  type: "size",
  default: usual,
  least,
  most,
});
export const count = (name: string, usual: number, most = 10_000, least = 1): FaultParameter => ({
  name,
  type: "count",
  default: usual,
  least,
  most,
});

/** Error codes of a stream or a connection in HTTP/2: RFC 9113, 7. */
export const STREAM_CODES: Readonly<Record<string, number>> = {
  internal: 2,
  none: 0,
  protocol: 1,
  refused: 7,
  cancel: 8,
  calm: 11,
};

/** Faults that gRPC cannot have: its messages have no line ends, and no request waits for its connection. */
const NOT_OF_MESSAGES = ["B7", "E9"];

/**
 * Reports whether the fault can act over the carrier. Over gRPC only faults that cut, hold back or end the bytes can, and
 * gRPC's own.
 */
export function actsOn({ id, http, stage }: FaultRow, over: FaultCarrier): boolean {
  if (over !== "grpc") return http === "any" || http === over;
  return (stage === "grpc" || stage === "segments" || stage === "end") && !NOT_OF_MESSAGES.includes(id);
}

/** Returns the parameter whose words are the fault's ways; undefined: the fault has one way. */
export const wayParameter = ({ parameters }: Pick<FaultRow, "parameters">) =>
  parameters.find((parameter) => parameter.type === "word");

/** Returns the rule of one way; the row's own rule if `way` is not one of its words. */
export function ruleOf(row: FaultRow, way: string): FaultRule {
  const { what, oracle, text, allows } = row;
  return { what, oracle, text, allows, ...row.ways[way] };
}

/** Returns the rule of a fault as a plan has it. */
export function plannedRule({ row, values }: PlannedFault): FaultRule {
  const name = wayParameter(row)?.name;
  return ruleOf(row, name === undefined ? "" : `${values[name]}`);
}

/** Returns the rules of all ways, in the order of their words; the row's own rule if it has one way. */
export function faultRulesOf(row: FaultRow): { readonly way: string; readonly rule: FaultRule }[] {
  const words = wayParameter(row)?.words ?? [""];
  return words.map((way) => ({ way, rule: ruleOf(row, way) }));
}

type WayInputs = Readonly<Record<string, string | Partial<FaultRule>>>;
type RowInput = Pick<FaultRow, "id" | "stage" | "what" | "oracle" | "text"> &
  Partial<Omit<FaultRow, "ways">> & { readonly ways?: WayInputs };

/**
 * Completes a row. The words of `ways` become the first parameter, `how`, unless `parameters` already has them. A row
 * lists them there if the parameter has another name, or if they are numbers, whose order an object does not keep.
 * `allows` is "policy" exactly if `text` is.
 */
export function faultRow(input: RowInput): FaultRow {
  const positions = input.positions ?? positionsIn(input.stage);
  const { parameters = [], text, allows = text === POLICY ? "policy" : null } = input;
  const words = Object.keys(input.ways ?? {});
  const isNamed =
    words.length === 0 ||
    parameters.some((parameter) => parameter.type === "word" && words.includes(parameter.words[0]!));
  return {
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

/** Completes a way. `allows`: the row's value. If the way has a source of its own, it is only "policy" if that source is. */
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
