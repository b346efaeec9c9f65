/** How is a client's program started, measured and ended? With all that it starts: it leads a group of processes. */
import { readFileSync, writeFileSync } from "node:fs";
import type { SeenCost } from "./seen.ts";

/** Hundredths of a second, Linux's unit of a process' CPU time in /proc. */
const TICK_MS = 10;

export class ClientProcess {
  readonly #child: Bun.Subprocess<"ignore" | "pipe", "pipe", "pipe">;
  #peakBytes = 0;

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>, stdin: "ignore" | "pipe") {
    this.#child = Bun.spawn([...command], { env, stdin, stdout: "pipe", stderr: "pipe", detached: true });
    living.add(this);
  }

  get stdout(): ReadableStream<Uint8Array> {
    return this.#child.stdout;
  }

  get stderr(): ReadableStream<Uint8Array> {
    return this.#child.stderr;
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
  }

  /** Looks how large it has been: its own end would tell how large we were when we started it. */
  look(): void {
    try {
      this.#peakBytes = peakOf(this.#child.pid);
    } catch {
      // The program has ended, or the system does not say.
    }
  }

  /** What it took from its start to its end, as large as it was when it was last looked at. */
  wholeCost(): SeenCost | null {
    const used = this.#child.resourceUsage();
    return used === undefined ? null : { cpuMs: Number(used.cpuTime.total) / 1000, peakBytes: this.#peakBytes };
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

/** Processes that are to end with this one. */
const living = new Set<ClientProcess>();
process.on("exit", () => {
  for (const one of living) one.kill();
});
