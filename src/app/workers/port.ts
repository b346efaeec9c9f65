/**
 * Reserves a port for the workers. With SO_REUSEPORT, several processes of a user may listen on one port, so that a port in use
 * would go unnoticed. The parent therefore makes two checks. It listens without the option, which fails if any process listens
 * there. While it does, it binds a name in the kernel's abstract namespace, and keeps it until all workers listen. That fails
 * if another start of this program is between these two points. The kernel releases port and name when the process ends, for
 * any reason.
 *
 * Another program may take the port between its release and the first worker's `listen`. That worker then fails.
 */

export interface Reservation {
  readonly port: number;
  /** Releases the name. Call it once all workers listen, because listening sockets then protect the port. */
  release(): void;
}

/** Reserves a port. `port` 0: any free port. Throws the errors of `Bun.serve`; `code` is EADDRINUSE if the port is in use. */
export function reservePort(hostname: string, port: number): Reservation {
  const alone = Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response(null, { status: 503 }) });
  try {
    const found = alone.port!;
    const name = nameOf(found);
    return { port: found, release: () => name.stop(true) };
  } finally {
    void alone.stop(true);
  }
}

function nameOf(port: number) {
  try {
    return Bun.listen({ unix: `\0understudy-port-${port}`, socket: { data() {} } });
  } catch (error) {
    const { code } = error as { code?: string };
    throw Object.assign(new Error(`Is port ${port} in use? Another server starts there.`), { code });
  }
}
