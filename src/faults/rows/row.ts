/** Parts that the rows of the table share: positions, sources, parameters. */
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

/** Line ends, encoding, segments. */
export const SSE_PARSING = "WHATWG HTML, 9.2.5";
/** Decoding, comments, fields, dispatch of an event. */
export const SSE_READING = "WHATWG HTML, 9.2.6";
export const RFC9110 = "RFC 9110";
export const RFC9112 = "RFC 9112";
export const RFC9113 = "RFC 9113";
export const JSON_TEXT = "RFC 8259";
/** "The stream is terminated by a `data: [DONE]` message." */
export const OPENAI_STREAM = "OpenAI API reference, `stream`";
export const OPENAI_CHUNK = "OpenAI API reference, chunk object";
/** No text says what is right, and we do not either: the verdict is `policy`. */
export const POLICY = "policy";
/** No text says what is right, and we judge by a rule of ours, which stands in the row. */
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

/** Messages have no line ends, and their connection has no next request that waits for it. */
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
  parameters.find((one) => one.type === "word");

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

type GivenWays = Readonly<Record<string, string | Partial<FaultRule>>>;
type Given = Pick<FaultRow, "id" | "stage" | "what" | "oracle" | "text"> &
  Partial<Omit<FaultRow, "ways">> & { readonly ways?: GivenWays };

/**
 * Completes a row. The words of `ways` become the parameter `how`, which comes first, unless `parameters` has them: under
 * another name, or because they are numbers, which an object sorts. `allows` is "policy" exactly where `text` is.
 */
export function faultRow(given: Given): FaultRow {
  const positions = given.positions ?? positionsIn(given.stage);
  const { parameters = [], text, allows = text === POLICY ? "policy" : null } = given;
  const words = Object.keys(given.ways ?? {});
  const isNamed = words.length === 0 || parameters.some((one) => one.type === "word" && words.includes(one.words[0]!));
  return {
    positions,
    inside: false,
    position: positions.includes("drawn") ? "?" : "head",
    dialects: ANSWER_DIALECTS,
    reaches: "answer",
    http: "any",
    excludes: "",
    ...given,
    allows,
    parameters: isNamed ? parameters : [oneOf(...words), ...parameters],
    ways: Object.fromEntries(Object.entries(given.ways ?? {}).map(([word, way]) => [word, wayOf(way, allows)])),
  };
}

/** `allows`: of the row. A way with a text of its own is open only if that text says so. */
function wayOf(given: string | Partial<FaultRule>, allows: FaultRule["allows"]): Partial<FaultRule> {
  const way = typeof given === "string" ? { what: given } : given;
  if (way.text === POLICY) return { ...way, allows: "policy" };
  return way.text !== undefined && allows === "policy" ? { allows: null, ...way } : way;
}

function positionsIn(stage: FaultStage): readonly PositionKind[] {
  if (stage === "events" || stage === "text") return AT_EVENTS;
  if (stage === "segments") return AT_PLACES;
  return stage === "end" ? AT_ONCE : AT_HEAD;
}
