/**
 * Checks the `Host` of requests against a list, so that a web page cannot reach the server under a name of its own (DNS
 * rebinding). Follows Starlette 1.10 (`middleware/trustedhost.py`), and also reads IPv6 addresses, which it does not.
 */

import type { HttpHeaders } from "./request.ts";

/** The answer to a request with another host: status, headers and body of Starlette. */
export const INVALID_HOST = {
  status: 400,
  headers: { server: "uvicorn", "content-type": "text/plain; charset=utf-8" },
  body: "Invalid host header",
} as const;

/** The name or address in a `Host` header, in small letters, without its port and brackets. */
function nameIn(host: string): string {
  const [, address, name = ""] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host.toLowerCase()) ?? [];
  return address ?? name;
}

/**
 * Reports whether a text can stand in the list: a host name, an IP address with or without brackets, `*` for any host, or
 * `*.NAME` for the names below NAME.
 */
export function isHostPattern(text: string): boolean {
  return (
    text === "*" ||
    /^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$/i.test(text) ||
    /^\[?[0-9a-f.]*:[0-9a-f.]*:[0-9a-f:.]*\]?$/i.test(text)
  );
}

/**
 * Returns the check of the `Host` headers of a request, or null if every host is allowed. Each of them must be allowed:
 * uvicorn with httptools accepts several (h11 does not), Starlette reads the first, and a proxy in between may read another.
 */
export function hostCheck(allowed: readonly string[]): ((headers: Pick<HttpHeaders, "forEach">) => boolean) | null {
  if (allowed.includes("*")) return null;
  const patterns = allowed.map((pattern) => pattern.toLowerCase().replace(/^\[(.*)\]$/, "$1"));
  const names = new Set(patterns.filter((pattern) => !pattern.startsWith("*")));
  const ends = patterns.filter((pattern) => pattern.startsWith("*")).map((pattern) => pattern.slice(1));
  const isAllowed = (host: string) => {
    const name = nameIn(host);
    return names.has(name) || ends.some((end) => name.endsWith(end));
  };
  return (headers) => {
    let hosts = 0;
    let others = 0;
    headers.forEach((value, name) => {
      if (name !== "host") return;
      hosts++;
      if (!isAllowed(value)) others++;
    });
    return hosts > 0 && others === 0;
  };
}
