/** Reads a list of header fields as a request: RFC 9113, section 8. */
import { FIELD_BYTES, type HeaderField } from "./hpack.ts";

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
const PSEUDO = [":method", ":path", ":scheme", ":authority"] as const;

/** Returns the head, or null if the fields are malformed. */
export function requestHead(fields: readonly HeaderField[]): RequestHead | null {
  const pseudo: Partial<Record<string, string>> = {};
  let at = 0;
  for (; at < fields.length && fields[at]![0].startsWith(":"); at++) {
    const [name, value] = fields[at]!;
    if (!PSEUDO.some((pseudoName) => pseudoName === name) || pseudo[name] !== undefined) return null;
    pseudo[name] = value;
  }
  const rest = fields.slice(at);
  const { ":method": method, ":path": path, ":scheme": scheme, ":authority": authority = "" } = pseudo;
  if (!method || !path || !scheme || !areRegular(rest)) return null;
  const length = rest.find(([name]) => name === "content-length")?.[1];
  if (length !== undefined && !/^\d+$/.test(length)) return null;
  return { method, path, authority, fields: rest, bytes: length === undefined ? null : Number(length) };
}

/** Reports whether fields may follow the pseudo-header fields, or be trailers: valid names, none of them forbidden. */
export function areRegular(fields: readonly HeaderField[]): boolean {
  return fields.every(
    ([name, value]) =>
      /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) && !FORBIDDEN.has(name) && (name !== "te" || value === "trailers"),
  );
}

/** Returns the size of a list of fields in bytes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
export const listBytes = (fields: readonly HeaderField[]): number =>
  fields.reduce((all, [name, value]) => all + name.length + value.length + FIELD_BYTES, 0);
