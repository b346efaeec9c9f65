/** Which latencies of llm-d-inference-sim hold in a running server, and what becomes of its timing when some change? */
import type { UsageError } from "../options/given.ts";
import { KEYS } from "./llm-d-keys.ts";
import { type CompatTiming, compatTiming, orError, type Said } from "./llm-d-timing.ts";

/** Keys of its `/admin/config` that shape the timing. */
export const LATENCIES: readonly string[] = Object.entries(KEYS).flatMap(([name, { fate }]) =>
  "shapes" in fate && (fate.shapes === "timing" || fate.shapes === "transfer") ? [name] : [],
);

export interface LatencyChange {
  readonly latencies: Latencies;
  readonly timing: CompatTiming;
}

/** What was said of them: nothing in it changes. */
export class Latencies {
  readonly #said: ReadonlyMap<string, Said>;
  readonly #maxNumSeqs: number;

  constructor(said: ReadonlyMap<string, Said>, maxNumSeqs: number) {
    // Where it was said at the start helps nobody later.
    this.#said = new Map(
      LATENCIES.flatMap((name) => (said.has(name) ? [[name, { texts: said.get(name)!.texts, where: name }]] : [])),
    );
    this.#maxNumSeqs = maxNumSeqs;
  }

  /** By key; null: nothing was said of it, or the server has another timing than they make. */
  read(timing: string | undefined): Record<string, string | null> {
    const held = this.#heldBy(timing);
    return Object.fromEntries(LATENCIES.map((name) => [name, held.get(name)?.texts.join(" ") ?? null]));
  }

  /** With these changes to what holds beside `timing`; null: its default. */
  with(changes: ReadonlyMap<string, Said | null>, timing: string | undefined): LatencyChange | UsageError {
    const said = new Map([...this.#heldBy(timing), ...changes]);
    const asked = (key: string) => said.get(key) ?? undefined;
    const made = orError(() => compatTiming(asked, this.#maxNumSeqs));
    if ("error" in made) return made;
    const kept = [...said].flatMap(([name, one]) => (one === null ? [] : [[name, one] as const]));
    return { latencies: new Latencies(new Map(kept), this.#maxNumSeqs), timing: made };
  }

  #heldBy(timing: string | undefined): ReadonlyMap<string, Said> {
    const made = orError(() => compatTiming((key) => this.#said.get(key), this.#maxNumSeqs));
    return "timing" in made && made.timing === timing ? this.#said : new Map();
  }
}

/** Why one of its keys cannot be had here; undefined: that is not why. */
export function unsupportedKey(name: string): string | undefined {
  const fate = Object.hasOwn(KEYS, name) ? KEYS[name]!.fate : null;
  return fate !== null && "unsupported" in fate ? fate.unsupported : undefined;
}
