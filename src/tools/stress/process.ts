/**
 * How is a client's program started, measured and ended? With all that it starts: it leads a group of processes, and who
 * leaves that has the mark of it in the environment, where the system shows it (Linux).
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import type { SeenCost } from "./seen.ts";

/** Hundredths of a second, Linux's unit of a process' CPU time in /proc. */
const TICK_MS = 10;

export class ClientProcess {
  readonly #child: Bun.Subprocess<"ignore" | "pipe", "pipe", "pipe">;
  readonly #mark = `${MARK}=${process.pid}-${started++}`;
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
    living.add(this);
  }

  /** As it comes, until nobody can write any more, or it was left. */
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

  /** The signal that ended it; null: none. */
  get signal(): string | null {
    return this.#child.signalCode === null ? null : `${this.#child.signalCode}`;
  }

  write(text: string): void {
    const input = this.#child.stdin;
    if (input === undefined || typeof input === "number") return;
    input.write(text);
    void input.flush();
  }

  /** Ends it and all that it started, whatever they do with a polite signal. */
  kill(): void {
    living.delete(this);
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // Nobody of them is left.
    }
    for (const pid of marked(this.#mark)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The process has ended by itself.
      }
    }
  }

  /** Ends it, and hears no more of what anybody says in its name. */
  leave(): void {
    this.kill();
    for (const reader of this.#readers) void reader.cancel();
  }

  /** Looks how large it has been: what its end tells may be how large we were when we started it. */
  look(): void {
    try {
      this.#peakBytes = peakOf(this.#child.pid);
    } catch {
      // The program has ended, or the system does not say.
    }
  }

  /** What it took from its start to its end. As large as its end tells where we never were so large, else as when it was last looked at. */
  wholeCost(): SeenCost | null {
    const used = this.#child.resourceUsage();
    if (used === undefined) return null;
    const isItsOwn = used.maxRSS > ownPeakBytes();
    return {
      cpuMs: Number(used.cpuTime.total) / 1000,
      peakBytes: isItsOwn ? Math.max(this.#peakBytes, used.maxRSS) : this.#peakBytes,
    };
  }

  /** What it takes from here on; null where the system does not say. */
  measure(): (() => SeenCost) | null {
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
let started = 0;

/** Processes whose environment has the mark; none where the system does not show it. */
function marked(mark: string): number[] {
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

/** Processes that are to end with this one. */
const living = new Set<ClientProcess>();
process.on("exit", () => {
  for (const one of living) one.kill();
});
