/** Is a block of headers a request? RFC 9113, section 8. */
import { FIELD_BYTES, type HeaderField } from "./hpack.ts";

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
const PSEUDO = [":method", ":path", ":scheme", ":authority"] as const;

/** null: it is malformed. */
export function requestHead(fields: readonly HeaderField[]): RequestHead | null {
  const pseudo: Partial<Record<string, string>> = {};
  let at = 0;
  for (; at < fields.length && fields[at]![0].startsWith(":"); at++) {
    const [name, value] = fields[at]!;
    if (!PSEUDO.some((one) => one === name) || pseudo[name] !== undefined) return null;
    pseudo[name] = value;
  }
  const rest = fields.slice(at);
  const { ":method": method, ":path": path, ":scheme": scheme, ":authority": authority = "" } = pseudo;
  if (!method || !path || !scheme || !areRegular(rest)) return null;
  const length = rest.find(([name]) => name === "content-length")?.[1];
  if (length !== undefined && !/^\d+$/.test(length)) return null;
  return { method, path, authority, fields: rest, bytes: length === undefined ? null : Number(length) };
}

/** As trailers are, too: none of the names is one of HTTP/2's own. */
export function areRegular(fields: readonly HeaderField[]): boolean {
  return fields.every(
    ([name, value]) =>
      /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) && !FORBIDDEN.has(name) && (name !== "te" || value === "trailers"),
  );
}

/** What a list of headers costs, as the setting for it counts. */
export const listBytes = (fields: readonly HeaderField[]): number =>
  fields.reduce((all, [name, value]) => all + name.length + value.length + FIELD_BYTES, 0);
