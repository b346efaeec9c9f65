/** Rows of faults that only gRPC calls have. */
import { AT_ONCE, faultRow } from "./row.ts";

/** gRPC status codes with which a fault can end a call, by name. */
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
    what: "an error status instead of the rest of the call",
    ways: Object.fromEntries(
      Object.entries(CALL_CODES).map(([word, code]) => [word, `status ${code} instead of the rest of the call`]),
    ),
    positions: PLACES,
    position: "head",
    oracle: "an error, or another attempt where that is safe",
    text: WIRE,
  }),
  faultRow({
    id: "G2",
    stage: "grpc",
    http: "grpc",
    what: "broken trailers",
    ways: {
      lost: "no trailers: the stream ends after the last message",
      bare: "trailers without a status",
      odd: "trailers whose status is not a number",
    },
    positions: ["done"],
    position: "done",
    oracle: "an error",
    text: WIRE,
  }),
  faultRow({
    id: "G3",
    stage: "grpc",
    http: "grpc",
    what: "a broken message, and the trailers at once",
    ways: {
      long: "a message whose length is too long",
      short: "a message whose length is too short",
      packed: "a message that says that it is compressed and is not",
    },
    positions: PLACES,
    position: "?",
    oracle: "an error",
    text: WIRE,
  }),
];
