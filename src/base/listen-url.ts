/** Writes the address of a listener for a URL, a log line or an error. An IPv6 address gets brackets (RFC 3986, 3.2.2). */

interface Listener {
  readonly hostname: string;
  readonly port: number | undefined;
}

/** Returns `HOST:PORT`. Accepts an address with or without brackets. */
export function hostAndPort({ hostname, port }: Listener): string {
  const bare = hostname.replace(/^\[(.*)\]$/, "$1");
  return bare.includes(":") ? `[${bare}]:${port}` : `${bare}:${port}`;
}

/** Returns `http://HOST:PORT`, or `https://HOST:PORT` if `tls` is set. */
export function listenUrl(listener: Listener, tls?: unknown): string {
  return `${tls ? "https" : "http"}://${hostAndPort(listener)}`;
}
