/** Reads how long garbage collections pause a server's thread, from the runtime's log (JavaScriptCore, `logGC`). */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { root } from "./bench.ts";

/** The garbage collections of the serving thread. The first heap in the log is that thread's. */
export class Collections {
  readonly #file: string;
  #heap: string | null = null;
  #readChars = 0;

  constructor(name: string) {
    mkdirSync(`${root}build/bench`, { recursive: true });
    this.#file = `${root}build/bench/${name}-collections.txt`;
    writeFileSync(this.#file, "");
  }

  /** Options with which the server must be started. */
  get start(): { readonly env: Readonly<Record<string, string>>; readonly complaints: string } {
    return { env: { BUN_JSC_logGC: "1" }, complaints: this.#file };
  }

  /** Returns the collections that ended since the last call. */
  since(): Collection[] {
    const text = readFileSync(this.#file, "latin1").slice(this.#readChars);
    // The rest is part of a line, or of a collection.
    const end = text.lastIndexOf("ms END]") + 1;
    this.#readChars += end;
    const fresh = text.slice(0, end);
    this.#heap ??= /\[GC<(\w+)>/.exec(fresh)?.[1] ?? null;
    const ended: Collection[] = [];
    let full = false;
    let pausesMs: number[] = [];
    for (const line of fresh.split("\n")) {
      if (!line.startsWith(`[GC<${this.#heap}>`)) continue;
      const [, kind] = /=> (Full|Eden)Collection/.exec(line) ?? [];
      if (kind !== undefined) [full, pausesMs] = [kind === "Full", []];
      for (const [, ms] of line.matchAll(/ p=([\d.]+)ms/g)) pausesMs.push(Number(ms));
      const [, cycleMs] = /, cycle ([\d.]+)ms/.exec(line) ?? [];
      if (cycleMs !== undefined) ended.push({ full, pausesMs, lastedMs: Number(cycleMs) });
    }
    return ended;
  }

  /** Returns the longest pause since the last call, in milliseconds. */
  longestMs(): number {
    return Math.max(0, ...this.since().flatMap(({ pausesMs }) => pausesMs));
  }
}

export interface Collection {
  readonly full: boolean;
  /** Lengths of the times in which the thread stood still. */
  readonly pausesMs: readonly number[];
  /** Duration of the whole collection, including the time in which the thread continued. */
  readonly lastedMs: number;
}
