/** Starts a server as a child process, for tests that need real sockets. */
import { main } from "./program.ts";

/** A running server, in its own process or in a shared one. */
export interface ServerHandle {
  readonly url: string;
  /** Returns the output so far. */
  readonly output: () => string;
}

export interface Server extends ServerHandle {
  readonly pid: number;
  /** Sends the signal, waits for the exit, and returns the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number>;
}

const CRASH_SIGNALS = ["SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"];

/**
 * Starts `understudy serve` with these flags on a free port. Resolves when the server listens, and rejects if it exits
 * before.
 */
export async function serve(flags: readonly string[] = [], env: Record<string, string> = {}): Promise<Server> {
  const child = Bun.spawn([process.execPath, main, "serve", "--port", "0", ...flags], {
    env: { ...process.env, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  let text = "";
  const ready = Promise.withResolvers<string>();
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      text += decoder.decode(chunk, { stream: true });
      const url = /https?:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
      if (url) ready.resolve(url);
    }
  };
  const outputRead = Promise.all([read(child.stdout), read(child.stderr)]);
  // After the exit, the last output may still be in the pipe.
  void child.exited.then(async (code) => {
    await outputRead;
    ready.reject(new Error(`the server ended with ${code}:\n${text}`));
    // Print the output, because otherwise the message of a runtime that crashes in the middle of a test is lost.
    if (CRASH_SIGNALS.includes(String(child.signalCode)))
      console.error(`the server broke (${child.signalCode}):\n${text}`);
  });
  return {
    url: await ready.promise,
    output: () => text,
    pid: child.pid,
    stop: async (signal = "SIGTERM") => {
      child.kill(signal);
      return child.exited;
    },
  };
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
