/** Starts a server as a child process, for tests that need real sockets. */
import { main } from "./program.ts";
import { type StartedProgram, startProgram } from "./started-program.ts";

/** A running server, in its own process or in a shared one. */
export interface ServerHandle {
  readonly url: string;
  /** Returns the output so far. */
  readonly output: () => string;
}

export interface Server extends ServerHandle, Pick<StartedProgram, "pid" | "stop"> {}

const URL_OF = /https?:\/\/127\.0\.0\.1:\d+/;
const CRASH_SIGNALS = ["SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"];

/**
 * Starts `understudy serve` with these flags on a free port. Resolves when the server listens, and rejects if it exits
 * before.
 */
export async function serve(flags: readonly string[] = [], env: Record<string, string> = {}): Promise<Server> {
  const command = [process.execPath, main, "serve", "--port", "0", ...flags];
  const server = await startProgram(command, (output) => URL_OF.test(output), { env: { ...process.env, ...env } });
  void server.ended.then(() => {
    // Print the output, because otherwise the message of a runtime that crashes in the middle of a test is lost.
    const signal = server.signalCode();
    if (CRASH_SIGNALS.includes(String(signal))) console.error(`the server broke (${signal}):\n${server.output()}`);
  });
  return { ...server, url: URL_OF.exec(server.output())![0] };
}

/**
 * Returns one sample of the metrics page, or NaN if it is missing. `series` is the name with its labels as printed, or a
 * prefix of it.
 */
export async function sample(url: string, series: string): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const line = page.split("\n").find((text) => text.startsWith(series));
  return line === undefined ? Number.NaN : Number(line.slice(line.lastIndexOf(" ") + 1));
}

/**
 * Waits until `wanted` returns true. Rejects after `tries` attempts with pauses of 10 ms. An error of `wanted` counts as
 * false, because a process that is being killed cuts connections.
 */
export async function eventually(wanted: () => Promise<boolean> | boolean, tries = 500): Promise<void> {
  let thrown: unknown = new Error("the condition did not become true in time");
  for (let i = 0; i < tries; i++) {
    try {
      if (await wanted()) return;
    } catch (error) {
      thrown = error;
    }
    await Bun.sleep(10);
  }
  throw thrown;
}
