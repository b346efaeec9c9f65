/** Reads how long garbage collections pause a server's thread, from the runtime's log (JavaScriptCore, `logGC`). */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { root } from "./results.ts";

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

  /** Returns the longest pause since the last call, in milliseconds. */
  longestMs(): number {
    const text = readFileSync(this.#file, "latin1");
    const fresh = text.slice(this.#readChars);
    this.#readChars = text.length;
    this.#heap ??= /\[GC<(\w+)>/.exec(fresh)?.[1] ?? null;
    let longest = 0;
    for (const line of fresh.split("\n"))
      if (line.startsWith(`[GC<${this.#heap}>`))
        for (const [, ms] of line.matchAll(/ p=([\d.]+)ms/g)) longest = Math.max(longest, Number(ms));
    return longest;
  }
}
