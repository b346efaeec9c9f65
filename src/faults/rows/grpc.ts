/** Which faults are of calls of gRPC? */
import { AT_ONCE, faultRow, oneOf } from "./row.ts";

/** Why a call ends: gRPC's codes. */
export const CALL_CODES: Readonly<Record<string, number>> = {
  unavailable: 14,
  cancelled: 1,
  unknown: 2,
  deadline: 4,
  denied: 7,
  exhausted: 8,
  aborted: 10,
  internal: 13,
  unauthenticated: 16,
};

const WIRE = "gRPC over HTTP/2, Responses";
const PLACES = AT_ONCE.filter((kind) => kind !== "byte" && kind !== "done");

export const grpcRows = [
  faultRow({
    id: "G1",
    stage: "grpc",
    http: "grpc",
    what: "the call ends with such a status, in place of the answer or of what follows",
    parameters: [oneOf(...Object.keys(CALL_CODES))],
    positions: PLACES,
    position: "head",
    oracle: "an error of its kind; tried again where that is safe",
    text: WIRE,
  }),
  faultRow({
    id: "G2",
    stage: "grpc",
    http: "grpc",
    what: "the trailers are lost: the stream ends behind the last message; with `bare` they have no status, with `odd` one that is no number",
    parameters: [oneOf("lost", "bare", "odd")],
    positions: ["done"],
    position: "done",
    oracle: "an error",
    text: WIRE,
  }),
  faultRow({
    id: "G3",
    stage: "grpc",
    http: "grpc",
    what: "a message whose length says more than comes, or less; one that says it is packed and is not; the trailers follow at once",
    parameters: [oneOf("long", "short", "packed")],
    positions: PLACES,
    position: "?",
    oracle: "an error",
    text: WIRE,
  }),
];
