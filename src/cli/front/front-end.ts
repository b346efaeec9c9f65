/**
 * Runs a front end of vLLM as a child process and notices when it is ready. Both of vLLM's front ends open their HTTP port
 * only when all engines have joined, and say so in their log. Runs in Bun and Node.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { constants as system } from "node:os";
import { delimiter, join } from "node:path";
import { WallClock } from "../../base/clock.ts";

/** Log lines of `vllm-rs` and of the Python API server (uvicorn) when they accept requests. */
const READY = /ready to accept requests|Application startup complete/;
/** Characters of the newest output that are kept. A ready line that spans two pieces of output is found in them. */
export const OUTPUT_KEPT = 65_536;
/** Time that a front end gets to end after SIGTERM. */
const ENDS_WITHIN_US = 10_000_000;
const OF_SIGNAL = 128;

export interface FrontEndSettings {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Receives the output as it comes. */
  readonly heard?: (chunk: Uint8Array, stream: "stdout" | "stderr") => void;
}

/** A front end that did not become ready. `message` is one line. */
export class NotReady extends Error {
  override readonly name = "NotReady";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Returns why the program cannot be started, in one line, or null. */
export function whyNotStartable(program: string): string | null {
  const places = program.includes("/")
    ? [program]
    : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, program));
  const found = places.filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
  if (found.length === 0) return `${program}: not found; give the path of vllm-rs, vllm or another front end`;
  return found.some(isExecutable) ? null : `${program}: is not executable; chmod +x ${found[0]}`;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export class FrontEnd {
  /** Resolves when the front end accepts requests. Rejects with `NotReady` if it ends before. */
  readonly ready: Promise<void>;
  /** Resolves with the exit code when the front end has ended: 128 and the number of the signal that ended it, if one did. */
  readonly ended: Promise<number>;
  readonly #child: ChildProcess;
  #output = "";
  #hasEnded = false;

  constructor(
    readonly command: readonly string[],
    { env, heard }: FrontEndSettings = {},
  ) {
    const [program, ...args] = command as [string, ...string[]];
    // A group of its own, so that Ctrl-C in a terminal reaches it only once, from us.
    this.#child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      env: { ...process.env, ...env },
    });
    const ready = Promise.withResolvers<void>();
    this.ready = ready.promise;
    this.ready.catch(() => {});
    let isWaiting = true;
    for (const stream of ["stdout", "stderr"] as const) {
      this.#child[stream]!.on("data", (chunk: Uint8Array) => {
        heard?.(chunk, stream);
        this.#output = (this.#output + new TextDecoder().decode(chunk)).slice(-OUTPUT_KEPT);
        if (isWaiting && READY.test(this.#output)) {
          isWaiting = false;
          ready.resolve();
        }
      });
    }
    const ended = Promise.withResolvers<number>();
    this.ended = ended.promise;
    const end = (code: number, how: string) => {
      this.#hasEnded = true;
      process.off("exit", this.#kill);
      ready.reject(new NotReady(`${program} ${how} before it was ready`, code || 1));
      ended.resolve(code);
    };
    this.#child.on("error", ({ message }) => end(1, `could not be started (${message})`));
    this.#child.on("exit", this.#kill);
    this.#child.on("close", (code, signal) => {
      if (signal === null) end(code!, `ended with code ${code}`);
      else end(OF_SIGNAL + (system.signals[signal] ?? 0), `was ended by ${signal}`);
    });
    process.on("exit", this.#kill);
  }

  /** The newest output. */
  get output(): string {
    return this.#output;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#hasEnded) this.#child.kill(signal);
  }

  /** Ends the front end: SIGTERM, and after 10 s SIGKILL. Returns its exit code. */
  async stop(): Promise<number> {
    this.signal("SIGTERM");
    const clock = new WallClock();
    const cancel = clock.at(clock.now() + ENDS_WITHIN_US, this.#kill);
    const code = await this.ended;
    cancel();
    clock.close();
    return code;
  }

  /** Kills the front end with the processes that it started, because one that holds our pipes open would keep us waiting. */
  readonly #kill = (): void => {
    if (this.#hasEnded) return;
    try {
      process.kill(-this.#child.pid!, "SIGKILL");
    } catch {
      // None is left.
    }
  };
}

/** Waits until the front end is ready. Ends it and rejects with `NotReady` after the timeout. */
export async function readyWithin(front: FrontEnd, seconds: number): Promise<void> {
  const clock = new WallClock();
  const late = Promise.withResolvers<"late">();
  const cancel = clock.at(clock.now() + seconds * 1e6, () => late.resolve("late"));
  try {
    if ((await Promise.race([front.ready, late.promise])) !== "late") return;
    await front.stop();
    throw new NotReady(`${front.command[0]} was not ready within ${seconds} s`, 1);
  } finally {
    cancel();
    clock.close();
  }
}
