/**
 * Is the port ours? With SO_REUSEPORT the kernel lets any process of the same user listen beside another, so a port in use
 * would go unnoticed. Whoever starts therefore asks twice: for the port alone, without the option, which fails beside
 * anybody who listens there; and, while it holds the port so, for a name in the kernel's abstract namespace, kept until
 * all workers listen, which fails beside another start of ours that is between these two points. The kernel forgets both
 * when the process ends, however it ends.
 *
 * Between letting the port go and the first worker's `listen` another program may take it: the worker then fails.
 */

export interface Reservation {
  readonly port: number;
  /** All listen: from now on the port itself keeps others away. */
  release(): void;
}

/** `port` 0: a free one. Throws as `Bun.serve` does; `code` is EADDRINUSE when somebody has it. */
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
