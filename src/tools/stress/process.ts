/**
 * Starts, measures and ends a client program together with all processes that it starts. The program leads a process group.
 * Descendants that left the group are found by a mark in their environment, where the system shows it (Linux).
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import type { ClientCost } from "./seen.ts";

/** Milliseconds per tick, Linux's unit of CPU time in /proc. */
const TICK_MS = 10;

/** Matches the last line that Node prints after an uncaught error. */
const NODE_VERSION = /^Node\.js v\d/;

/**
 * Returns the line of a program's standard error that states its error: the last line that is not blank. If Node's version is
 * the last line, skips it, and the stack frames and properties that Node prints below the error. "": no line is left.
 */
export function errorLine(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const isNode = NODE_VERSION.test(lines.at(-1) ?? "");
  const line = isNode ? lines.findLast((text) => !NODE_VERSION.test(text) && !/^[\s}]/.test(text)) : lines.at(-1);
  return line?.trim() ?? "";
}

export class ClientProcess {
  readonly #child: Bun.Subprocess<"ignore" | "pipe", "pipe", "pipe">;
  readonly #mark = `${MARK}=${process.pid}-${startCount++}`;
  readonly #readers = new Set<{ cancel(): Promise<void> }>();
  #peakBytes = 0;

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>, stdin: "ignore" | "pipe") {
    const [name = "", value] = this.#mark.split("=");
    this.#child = Bun.spawn([...command], {
      env: { ...env, [name]: value },
      stdin,
      stdout: "pipe",
      stderr: "pipe",
      detached: true,
    });
    running.add(this);
  }

  /** Standard output in parts, until all writers closed it, or `leave` was called. */
  get stdout(): AsyncIterable<Uint8Array> {
    return this.#parts(this.#child.stdout);
  }

  get stderr(): AsyncIterable<Uint8Array> {
    return this.#parts(this.#child.stderr);
  }

  async *#parts(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    const reader = stream.getReader();
    this.#readers.add(reader);
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
    this.#readers.delete(reader);
  }

  get exited(): Promise<number> {
    return this.#child.exited;
  }

  /** Name of the signal that ended the program. Null if none did. */
  get signal(): string | null {
    return this.#child.signalCode === null ? null : `${this.#child.signalCode}`;
  }

  write(text: string): void {
    const input = this.#child.stdin;
    if (input === undefined || typeof input === "number") return;
    input.write(text);
    void input.flush();
  }

  /** Kills the program and all that it started with SIGKILL. */
  kill(): void {
    running.delete(this);
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // No process of the group is left.
    }
    for (const pid of pidsWithMark(this.#mark)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The process has ended by itself.
      }
    }
  }

  /** Kills the program, and stops reading the output that its descendants may still write. */
  leave(): void {
    this.kill();
    for (const reader of this.#readers) void reader.cancel();
  }

  /** Records the peak memory while the program runs. The value after its end may be that of our own process when it forked. */
  look(): void {
    try {
      this.#peakBytes = peakOf(this.#child.pid);
    } catch {
      // The program has ended, or the system does not report its memory.
    }
  }

  /**
   * Returns CPU time and peak memory from start to end. The system's value for the peak counts only if it is larger than our
   * own process ever was; else the last recorded value.
   */
  wholeCost(): ClientCost | null {
    const usage = this.#child.resourceUsage();
    if (usage === undefined) return null;
    const isAboveOwn = usage.maxRSS > ownPeakBytes();
    return {
      cpuMs: Number(usage.cpuTime.total) / 1000,
      peakBytes: isAboveOwn ? Math.max(this.#peakBytes, usage.maxRSS) : this.#peakBytes,
    };
  }

  /** Starts a measurement. The returned function gives the cost since then. Null if the system does not offer it. */
  measure(): (() => ClientCost) | null {
    const { pid } = this.#child;
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, "5");
      const before = cpuMsOf(pid);
      return () => ({ cpuMs: cpuMsOf(pid) - before, peakBytes: peakOf(pid) });
    } catch {
      return null;
    }
  }
}

function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

const peakOf = (pid: number): number =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;

function ownPeakBytes(): number {
  try {
    return peakOf(process.pid);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

const MARK = "UNDERSTUDY_CLIENT";
let startCount = 0;

/** Returns the processes with the mark in their environment. Empty if the system does not show it. */
function pidsWithMark(mark: string): number[] {
  const has = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(mark);
    } catch {
      return false;
    }
  };
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && has(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** Programs to kill when this process ends. */
const running = new Set<ClientProcess>();
process.on("exit", () => {
  for (const client of running) client.kill();
});
