/** Encodes the status of a gRPC call: its code, and a message of any text. */
import { encodeFields, type HeaderField } from "../http2/hpack.ts";

export const GRPC_CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;
export type GrpcCode = (typeof GRPC_CODES)[number];

export interface GrpcStatus {
  readonly code: GrpcCode;
  readonly message: string;
}

export const GRPC_OK: GrpcStatus = { code: "OK", message: "" };

/** Longest status message. A message may quote megabytes of a request, but clients limit metadata. */
const MESSAGE_CHARACTERS_MOST = 16_384;

/** Encodes a message as percent-encoded UTF-8. Keeps printable ASCII, except `%` and blanks at the ends, which HTTP/2 forbids. */
const escaped = (message: string): string =>
  Buffer.from(message.slice(0, MESSAGE_CHARACTERS_MOST))
    .toString("latin1")
    .replaceAll(
      /[^ -$&-~]|^ | $/g,
      (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
    );

const fieldsOf = ({ code, message }: GrpcStatus): HeaderField[] => [
  ["grpc-status", `${GRPC_CODES.indexOf(code)}`],
  ...(message === "" ? [] : [["grpc-message", escaped(message)] as const]),
];

export const CONTENT_TYPE: HeaderField = ["content-type", "application/grpc"];
const STATUS: HeaderField = [":status", "200"];
const GOOD = encodeFields(fieldsOf(GRPC_OK));

/** Encodes the trailers that end a call after its answers. */
export const trailersOf = (status: GrpcStatus): Buffer => (status === GRPC_OK ? GOOD : encodeFields(fieldsOf(status)));
/** Encodes the only header block of a call without answers. */
export const onlyTrailers = (status: GrpcStatus, more: readonly HeaderField[] = []): Buffer =>
  encodeFields([STATUS, CONTENT_TYPE, ...more, ...fieldsOf(status)]);
/** Encodes the head before the first answer. */
export const headOf = (more: readonly HeaderField[]): Buffer => encodeFields([STATUS, CONTENT_TYPE, ...more]);
