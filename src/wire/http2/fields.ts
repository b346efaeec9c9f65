/** Is a block of headers a request? RFC 9113, section 8. */
import { fieldBytes, type HeaderField } from "./hpack.ts";

export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly authority: string;
  /** All others in their order; a name may come again. */
  readonly fields: readonly HeaderField[];
  /** As `content-length` says; null: it says nothing. */
  readonly bytes: number | null;
}

/** What a connection itself would say in HTTP/1. */
const FORBIDDEN = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);
/** Names of most requests, which are regular: a look-up takes a tenth of the time of the expression. */
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

/** null: it is malformed. */
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

/** As trailers are, too: none of the names is one of HTTP/2's own. */
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

/** Value of the last field with the name. By index, because several names of each call are looked up. */
export function lastValue(fields: readonly HeaderField[], name: string): string | undefined {
  for (let at = fields.length - 1; at >= 0; at--) if (fields[at]![0] === name) return fields[at]![1];
  return undefined;
}

/** What a list of headers costs, as the setting for it counts. */
export function listBytes(fields: readonly HeaderField[]): number {
  let bytes = 0;
  for (let at = 0; at < fields.length; at++) bytes += fieldBytes(fields[at]!);
  return bytes;
}
