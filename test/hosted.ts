/**
 * Starts servers that share one child process, for tests over real sockets. A start takes a tenth of the time of a separate
 * process (server.ts). Tests of flags, output, signals and delays use separate processes.
 */
import { atEnd } from "./at-end.ts";
import type { HostMessage, HostRequest } from "./host.ts";
import { host as program, SEPARATE } from "./program.ts";
import { separateServer } from "./separate-server.ts";
import type { ServerHandle } from "./server.ts";

/** A running server. `output` returns its banner and log. A log line may arrive after the answer that it describes. */
export interface HostedServer extends ServerHandle {
  /** URLs of Triton's metrics port and of the HTTP/2 port. Null if the server has no such port. */
  readonly metricsUrl: string | null;
  readonly http2Url: string | null;
  /** Stops the server like SIGTERM. Running requests get `graceS` seconds, by default those of `--shutdown-timeout`. */
  stop(graceS?: number): Promise<void>;
}

type MessageListener = (message: HostMessage) => void;

/** The child process that all test files of this process share. */
class Host {
  readonly #listeners = new Map<number, MessageListener>();
  readonly #child = Bun.spawn([process.execPath, program], {
    stdio: ["ignore", "inherit", "inherit"],
    ipc: (message: HostMessage) => this.#listeners.get(message.id)?.(message),
  });

  listen(id: number, listener: MessageListener): void {
    this.#listeners.set(id, listener);
  }

  send(request: HostRequest): void {
    this.#child.send(request);
  }

  /** Rejects when the child process exits by itself. */
  readonly lost: Promise<never> = this.#child.exited.then((code) => {
    throw new Error(`the servers' process ended with ${code}`);
  });

  /**
   * True if the child process has exited. The test runner kills all processes after a timeout; the next server then starts a
   * new one.
   */
  get isLost(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  constructor() {
    this.lost.catch(() => {}); // code that waits for a server gets this rejection
    atEnd(() => this.#close());
  }

  /** Waits until the child process has exited, so that its CPU time is counted. */
  async #close(): Promise<void> {
    if (this.isLost) return;
    host = null;
    this.#child.disconnect();
    await this.#child.exited;
  }
}

let host: Host | null = null;
let last = 0;

/** Starts a server with these flags on a free port. Rejects with the error line if the flags are refused. */
export const hosted = (
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<HostedServer> => hostedAs(["--port", "0", ...flags], env);

/** Starts a server whose `flags` name the ports. */
export async function hostedAs(
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<HostedServer> {
  if (program === SEPARATE) return separateServer(flags, env);
  if (host === null || host.isLost) host = new Host();
  const [id, shared] = [++last, host];
  const ready = Promise.withResolvers<Pick<HostedServer, "url" | "metricsUrl" | "http2Url">>();
  const ended = Promise.withResolvers<void>();
  let text = "";
  shared.listen(id, (message) => {
    if ("line" in message) text += `${message.line}\n`;
    else if ("refused" in message) ready.reject(new Error(message.refused));
    else if ("ended" in message) ended.resolve();
    else ready.resolve(message);
  });
  shared.send({ id, start: { flags, env } });
  const { url, metricsUrl, http2Url } = await Promise.race([ready.promise, shared.lost]);
  const stop = async (graceS?: number) => {
    if (shared.isLost) return;
    shared.send({ id, graceS });
    await Promise.race([ended.promise, shared.lost]);
  };
  return { url, metricsUrl, http2Url, output: () => text, stop };
}
