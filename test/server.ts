/** A server of ours as a child process, for tests that need real sockets. */
import { main } from "./program.ts";

/** Whichever way it was started. */
export interface Listening {
  readonly url: string;
  /** What it printed so far. */
  readonly output: () => string;
}

export interface Server extends Listening {
  readonly pid: number;
  /** Ends it with the signal and gives its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number>;
}

const BREAKS = ["SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"];

/** `understudy serve` with these flags on a free port; resolves when it listens. */
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
  const said = Promise.all([read(child.stdout), read(child.stderr)]);
  // What it said last may still be in the pipe when it has ended.
  void child.exited.then(async (code) => {
    await said;
    ready.reject(new Error(`the server ended with ${code}:\n${text}`));
    // Nobody sees what a runtime says that breaks in the middle of a test.
    if (BREAKS.includes(String(child.signalCode))) console.error(`the server broke (${child.signalCode}):\n${text}`);
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

/** One sample of a metrics page, or NaN. `series` is the name with its labels as printed, or its beginning. */
export async function sample(url: string, series: string): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const line = page.split("\n").find((one) => one.startsWith(series));
  return line === undefined ? Number.NaN : Number(line.slice(line.lastIndexOf(" ") + 1));
}

/** Asks until `wanted` holds, at most some seconds. What it throws is no answer yet: a process that is killed cuts connections. */
export async function eventually(wanted: () => Promise<boolean> | boolean, tries = 500): Promise<void> {
  let thrown: unknown = new Error("it did not come about in time");
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
