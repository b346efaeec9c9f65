/**
 * Servers of ours that share a process beside the test's, for tests of what comes over real sockets: a start takes a
 * tenth of what a process of its own does (server.ts), which tests of flags, output, signals and lateness start.
 */
import { atEnd } from "./at-end.ts";
import type { Asked, Told } from "./host.ts";
import { host as program } from "./program.ts";
import type { Listening } from "./server.ts";

/** `output`: what it is, and what it logged; a line may come after the answer that it is about. */
export interface Hosted extends Listening {
  /** Triton's metrics port, and the one for HTTP/2; null: there is none. */
  readonly metricsUrl: string | null;
  readonly http2Url: string | null;
  /** Ends it in order, as SIGTERM would; what runs gets so many seconds, by default those of `--shutdown-timeout`. */
  stop(graceS?: number): Promise<void>;
}

type Hear = (told: Told) => void;

/** One process for all test files of this one. */
class Host {
  readonly #hearers = new Map<number, Hear>();
  readonly #child = Bun.spawn([process.execPath, program], {
    stdio: ["ignore", "inherit", "inherit"],
    ipc: (told: Told) => this.#hearers.get(told.id)?.(told),
  });

  hear(id: number, hear: Hear): void {
    this.#hearers.set(id, hear);
  }

  ask(asked: Asked): void {
    this.#child.send(asked);
  }

  /** Rejects when it ends by itself. */
  readonly lost: Promise<never> = this.#child.exited.then((code) => {
    throw new Error(`the servers' process ended with ${code}`);
  });

  /** The runner ends all processes when a test takes too long: the next server gets another one. */
  get isLost(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  constructor() {
    this.lost.catch(() => {}); // who waits for a server hears of it
    atEnd(() => this.#close());
  }

  /** Waits for its end, so that its processor time is counted. */
  async #close(): Promise<void> {
    if (this.isLost) return;
    host = null;
    this.#child.disconnect();
    await this.#child.exited;
  }
}

let host: Host | null = null;
let last = 0;

/** `understudy serve` with these flags on a free port. Rejects with the line that refuses them. */
export const hosted = (flags: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Promise<Hosted> =>
  hostedAs(["--port", "0", ...flags], env);

/** `flags` name the ports. */
export async function hostedAs(flags: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Hosted> {
  if (host === null || host.isLost) host = new Host();
  const [id, own] = [++last, host];
  const ready = Promise.withResolvers<Pick<Hosted, "url" | "metricsUrl" | "http2Url">>();
  const ended = Promise.withResolvers<void>();
  let text = "";
  own.hear(id, (told) => {
    if ("line" in told) text += `${told.line}\n`;
    else if ("refused" in told) ready.reject(new Error(told.refused));
    else if ("ended" in told) ended.resolve();
    else ready.resolve(told);
  });
  own.ask({ id, start: { flags, env } });
  const { url, metricsUrl, http2Url } = await Promise.race([ready.promise, own.lost]);
  const stop = async (graceS?: number) => {
    if (own.isLost) return;
    own.ask({ id, graceS });
    await Promise.race([ended.promise, own.lost]);
  };
  return { url, metricsUrl, http2Url, output: () => text, stop };
}
