/** Reads a list of header fields as a request: RFC 9113, section 8. */
import { fieldBytes, type HeaderField } from "./hpack.ts";

/** The head of a request. */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly authority: string;
  /** All other fields in their order. A name may occur several times. */
  readonly fields: readonly HeaderField[];
  /** Length of the body according to `content-length`; null without that field. */
  readonly bytes: number | null;
}

/** Fields about the connection, which HTTP/2 forbids. */
const FORBIDDEN = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);
/** Common valid names. Looking up a name here takes a tenth of the time of the regular expression. */
const USUAL = new Set([
  "accept",
  "accept-encoding",
  "authorization",
  "content-length",
  "content-type",
  "grpc-accept-encoding",
  "grpc-encoding",
  "grpc-timeout",
  "user-agent",
]);
const REGULAR = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const COLON = ":".charCodeAt(0);

/** Returns the head, or null if the fields are malformed. */
export function requestHead(fields: readonly HeaderField[]): RequestHead | null {
  let method: string | undefined;
  let path: string | undefined;
  let scheme: string | undefined;
  let authority: string | undefined;
  let at = 0;
  for (; at < fields.length && fields[at]![0].charCodeAt(0) === COLON; at++) {
    const field = fields[at]!;
    const name = field[0];
    const value = field[1];
    if (name === ":method" && method === undefined) method = value;
    else if (name === ":path" && path === undefined) path = value;
    else if (name === ":scheme" && scheme === undefined) scheme = value;
    else if (name === ":authority" && authority === undefined) authority = value;
    else return null;
  }
  const rest = fields.slice(at);
  if (!method || !path || !scheme || !areRegular(rest)) return null;
  const length = firstValue(rest, "content-length");
  if (length !== undefined && !/^\d+$/.test(length)) return null;
  return {
    method,
    path,
    authority: authority ?? "",
    fields: rest,
    bytes: length === undefined ? null : Number(length),
  };
}

/** Reports whether fields may follow the pseudo-header fields, or be trailers: valid names, none of them forbidden. */
export function areRegular(fields: readonly HeaderField[]): boolean {
  for (let at = 0; at < fields.length; at++) {
    const field = fields[at]!;
    const name = field[0];
    if (name === "te" ? field[1] !== "trailers" : !USUAL.has(name) && (FORBIDDEN.has(name) || !REGULAR.test(name)))
      return false;
  }
  return true;
}

function firstValue(fields: readonly HeaderField[], name: string): string | undefined {
  for (let at = 0; at < fields.length; at++) if (fields[at]![0] === name) return fields[at]![1];
  return undefined;
}

/** Returns the value of the last field with the name. Every call looks up several names, so this creates no objects. */
export function lastValue(fields: readonly HeaderField[], name: string): string | undefined {
  for (let at = fields.length - 1; at >= 0; at--) if (fields[at]![0] === name) return fields[at]![1];
  return undefined;
}

/** Returns the size of a list of fields in bytes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
export function listBytes(fields: readonly HeaderField[]): number {
  let bytes = 0;
  for (let at = 0; at < fields.length; at++) bytes += fieldBytes(fields[at]!);
  return bytes;
}
