/** What do rows of the table have in common? Short ways to say them. */
import {
  ANSWER_DIALECTS,
  type FaultCarrier,
  type FaultParameter,
  type FaultRow,
  type FaultStage,
  type PositionKind,
} from "../types.ts";

export const AT_EVENTS: readonly PositionKind[] = ["head", "event", "done", "every", "drawn", "chance"];
export const AT_PLACES: readonly PositionKind[] = [...AT_EVENTS, "byte"];
export const AT_HEAD: readonly PositionKind[] = ["head"];
export const AT_ONCE: readonly PositionKind[] = ["head", "event", "done", "drawn", "chance", "byte"];

export const SSE = "WHATWG HTML, 9.2 Server-sent events";
export const RFC9110 = "RFC 9110";
export const RFC9112 = "RFC 9112";
export const RFC9113 = "RFC 9113";
export const POLICY = "policy";
export const REFERENCE = "the API's reference on streams";

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

/** Why a stream or a connection of HTTP/2 ends: RFC 9113, 7. */
export const STREAM_CODES: Readonly<Record<string, number>> = {
  internal: 2,
  none: 0,
  protocol: 1,
  refused: 7,
  cancel: 8,
  calm: 11,
};

/** Messages have no line ends, and their connection no next request that waits for it. */
const NOT_OF_MESSAGES = ["B7", "E9"];

/** Can the fault be there? Of calls those that cut, hold back or end what leaves, and their own. */
export function actsOn({ id, http, stage }: FaultRow, over: FaultCarrier): boolean {
  if (over !== "grpc") return http === "any" || http === over;
  return (stage === "grpc" || stage === "segments" || stage === "end") && !NOT_OF_MESSAGES.includes(id);
}

type Given = Pick<FaultRow, "id" | "stage" | "what" | "oracle" | "text"> & Partial<FaultRow>;

export function faultRow(given: Given): FaultRow {
  const positions = given.positions ?? positionsIn(given.stage);
  return {
    parameters: [],
    positions,
    inside: false,
    position: positions.includes("drawn") ? "?" : "head",
    dialects: ANSWER_DIALECTS,
    reaches: "answer",
    http: "any",
    excludes: "",
    ...given,
  };
}

function positionsIn(stage: FaultStage): readonly PositionKind[] {
  if (stage === "events" || stage === "text") return AT_EVENTS;
  if (stage === "segments") return AT_PLACES;
  return stage === "end" ? AT_ONCE : AT_HEAD;
}
