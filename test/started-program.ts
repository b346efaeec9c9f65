/** Starts a program and reads its output, for tests of whole processes. */

export interface StartedProgram {
  readonly pid: number;
  /** Returns everything that the program has printed so far. */
  readonly output: () => string;
  readonly exited: Promise<number>;
  /** Settles after the exit and the last output. */
  readonly ended: Promise<unknown>;
  /** Signal that ended the program, or null. */
  readonly signalCode: () => NodeJS.Signals | number | null;
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Sends the signal, waits for the exit, and returns the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number>;
}

interface Place {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Resolves when the output so far is ready. Rejects with the output if the program exits before. */
export async function startProgram(
  command: readonly string[],
  isReady: (output: string) => boolean,
  place: Place = {},
): Promise<StartedProgram> {
  const child = Bun.spawn([...command], { ...place, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  let text = "";
  const ready = Promise.withResolvers<void>();
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      text += decoder.decode(chunk, { stream: true });
      if (isReady(text)) ready.resolve();
    }
  };
  const outputRead = Promise.all([read(child.stdout), read(child.stderr)]);
  // After the exit, the last output may still be in the pipe.
  const ended = Promise.all([child.exited, outputRead]);
  void ended.then(([code]) => ready.reject(new Error(`the server ended with ${code}:\n${text}`)));
  await ready.promise;
  return {
    ...{ pid: child.pid, output: () => text, exited: child.exited, ended, signalCode: () => child.signalCode },
    signal: (signal) => child.kill(signal),
    stop: (signal = "SIGTERM") => {
      child.kill(signal);
      return child.exited;
    },
  };
}
