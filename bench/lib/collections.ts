/** How long do a server's collections of garbage pause its thread? By the runtime's own log (JavaScriptCore, `logGC`). */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { root } from "./results.ts";

/** Collections of the serving thread, whose log begins with the first of them. */
export class Collections {
  readonly #file: string;
  #heap: string | null = null;
  #seen = 0;

  constructor(name: string) {
    mkdirSync(`${root}build/bench`, { recursive: true });
    this.#file = `${root}build/bench/${name}-collections.txt`;
    writeFileSync(this.#file, "");
  }

  /** What the server is started with. */
  get start(): { readonly env: Readonly<Record<string, string>>; readonly complaints: string } {
    return { env: { BUN_JSC_logGC: "1" }, complaints: this.#file };
  }

  /** The longest pause since the last call, milliseconds. */
  longestMs(): number {
    const text = readFileSync(this.#file, "latin1");
    const fresh = text.slice(this.#seen);
    this.#seen = text.length;
    this.#heap ??= /\[GC<(\w+)>/.exec(fresh)?.[1] ?? null;
    let longest = 0;
    for (const line of fresh.split("\n"))
      if (line.startsWith(`[GC<${this.#heap}>`))
        for (const [, ms] of line.matchAll(/ p=([\d.]+)ms/g)) longest = Math.max(longest, Number(ms));
    return longest;
  }
}
