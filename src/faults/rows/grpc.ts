/** Rows of faults that only gRPC calls have. */
import { AT_LAST, AT_ONCE, faultRow } from "./row.ts";

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
  faultRow("G1", "grpc", "an error status instead of the rest of the call", {
    oracle: "an error, or another attempt where that is safe",
    text: WIRE,
    http: "grpc",
    ways: Object.fromEntries(
      Object.entries(CALL_CODES).map(([word, code]) => [word, `status ${code} instead of the rest of the call`]),
    ),
    positions: PLACES,
    position: "head",
  }),
  faultRow("G2", "grpc", "broken trailers", {
    oracle: "an error",
    text: WIRE,
    http: "grpc",
    ways: {
      lost: "no trailers: the stream ends after the last message",
      bare: "trailers without a status",
      odd: "trailers whose status is not a number",
    },
    ...AT_LAST,
  }),
  faultRow("G3", "grpc", "a broken message, and the trailers at once", {
    oracle: "an error",
    text: WIRE,
    http: "grpc",
    ways: {
      long: "a message whose length is too long",
      short: "a message whose length is too short",
      packed: "a message that says that it is compressed and is not",
    },
    positions: PLACES,
    position: "?",
  }),
];
