/** Changes the latencies of llm-d-inference-sim in a running server, and computes the resulting timing. */
import type { UsageError } from "../options/given.ts";
import { KEYS } from "./llm-d-keys.ts";
import { type CompatTiming, compatTiming, type KeyInput, orError } from "./llm-d-timing.ts";

/** The keys of the simulator's `/admin/config` that set the timing. */
export const LATENCIES: readonly string[] = Object.entries(KEYS).flatMap(([name, { fate }]) =>
  "shapes" in fate && (fate.shapes === "timing" || fate.shapes === "transfer") ? [name] : [],
);

export interface LatencyChange {
  readonly latencies: Latencies;
  readonly timing: CompatTiming;
}

/** The values of the latency keys. An object never changes; `with` returns a new one. */
export class Latencies {
  readonly #said: ReadonlyMap<string, KeyInput>;
  readonly #maxNumSeqs: number;

  constructor(said: ReadonlyMap<string, KeyInput>, maxNumSeqs: number) {
    // Use the key as the place of a value, because later error messages should not name the place at the start.
    this.#said = new Map(
      LATENCIES.flatMap((name) => (said.has(name) ? [[name, { texts: said.get(name)!.texts, where: name }]] : [])),
    );
    this.#maxNumSeqs = maxNumSeqs;
  }

  /**
   * Returns the values by key. A value is null if its key is not set. All values are null if `timing`, the server's timing, is
   * not the timing that the keys result in.
   */
  read(timing: string | undefined): Record<string, string | null> {
    const held = this.#heldBy(timing);
    return Object.fromEntries(LATENCIES.map((name) => [name, held.get(name)?.texts.join(" ") ?? null]));
  }

  /**
   * Applies changes and computes the resulting timing. A change to null restores the key's default. `timing`: the server's
   * current timing.
   */
  with(changes: ReadonlyMap<string, KeyInput | null>, timing: string | undefined): LatencyChange | UsageError {
    const said = new Map([...this.#heldBy(timing), ...changes]);
    const asked = (key: string) => said.get(key) ?? undefined;
    const made = orError(() => compatTiming(asked, this.#maxNumSeqs));
    if ("error" in made) return made;
    const kept = [...said].flatMap(([name, one]) => (one === null ? [] : [[name, one] as const]));
    return { latencies: new Latencies(new Map(kept), this.#maxNumSeqs), timing: made };
  }

  #heldBy(timing: string | undefined): ReadonlyMap<string, KeyInput> {
    const made = orError(() => compatTiming((key) => this.#said.get(key), this.#maxNumSeqs));
    return "timing" in made && made.timing === timing ? this.#said : new Map();
  }
}

/** Returns the reason why a key is not supported. Returns undefined if the key is supported or unknown. */
export function unsupportedKey(name: string): string | undefined {
  const fate = Object.hasOwn(KEYS, name) ? KEYS[name]!.fate : null;
  return fate !== null && "unsupported" in fate ? fate.unsupported : undefined;
}
