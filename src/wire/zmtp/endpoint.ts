/** Reads and prints addresses of sockets: `tcp://HOST:PORT` and `ipc://PATH`. */

export type ZmtpAddress = { readonly hostname: string; readonly port: number } | { readonly unix: string };

const TCP = /^tcp:\/\/(?:\[([^\]]+)\]|([^:[\]]+)):(\d+|\*)$/;
const PORT_MOST = 65_535;

/** Returns the address, or null if the text is none. The host `*` means all interfaces, the port `*` or 0 any free port. */
export function zmtpAddress(text: string): ZmtpAddress | null {
  if (text.startsWith("ipc://")) return text.length > 6 ? { unix: text.slice(6) } : null;
  const [, ipv6, host, digits] = TCP.exec(text) ?? [];
  const hostname = ipv6 ?? (host === "*" ? "0.0.0.0" : host);
  const port = digits === "*" ? 0 : Number(digits);
  return hostname === undefined || !(port <= PORT_MOST) ? null : { hostname, port };
}

export function addressText(address: ZmtpAddress): string {
  if ("unix" in address) return `ipc://${address.unix}`;
  const { hostname, port } = address;
  return `tcp://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
