/**
 * Keeps requests of commands away from the proxy that HTTP_PROXY and HTTPS_PROXY name. Docker sets these variables in its
 * containers if its configuration names a proxy, which cannot reach the container's own server.
 */

/** Hosts of this machine, in the form of NO_PROXY. */
const OWN_MACHINE = ["localhost", "127.0.0.0/8", "::1", "0.0.0.0"];

/** Hosts that a command asks without a proxy. The connections that `load` measures never use one, so its questions do not either. */
const DIRECT = new Map([
  ["load", ["*"]],
  ["check", OWN_MACHINE],
  ["kv-check", OWN_MACHINE],
  ["truth", OWN_MACHINE],
  ["health", OWN_MACHINE],
]);

/** Adds the hosts that `command` asks directly to those of the user. Bun reads the variable at each request, in preference to NO_PROXY. */
export function bypassProxies(command: string | undefined): void {
  const hosts = DIRECT.get(command ?? "");
  if (hosts === undefined) return;
  const { no_proxy: lower, NO_PROXY: upper } = process.env;
  process.env.no_proxy = [lower || upper, ...hosts].filter(Boolean).join(",");
}
