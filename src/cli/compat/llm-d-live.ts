/** Changes latencies of llm-d-inference-sim in a running server, and computes the timing that follows. */
import type { UsageError } from "../options/given.ts";
import { KEYS } from "./llm-d-keys.ts";
import { type CompatTiming, compatTiming, type KeyInput, orError } from "./llm-d-timing.ts";

/** Keys of the simulator's `/admin/config` that set the timing. */
export const LATENCIES: readonly string[] = Object.entries(KEYS).flatMap(([name, { fate }]) =>
  "shapes" in fate && (fate.shapes === "timing" || fate.shapes === "transfer") ? [name] : [],
);

export interface LatencyChange {
  readonly latencies: Latencies;
  readonly timing: CompatTiming;
}

/** The values of the latency keys. Immutable. */
export class Latencies {
  readonly #said: ReadonlyMap<string, KeyInput>;
  readonly #maxNumSeqs: number;

  constructor(said: ReadonlyMap<string, KeyInput>, maxNumSeqs: number) {
    // Later messages name the key, not the place where the value was set at the start.
    this.#said = new Map(
      LATENCIES.flatMap((name) => (said.has(name) ? [[name, { texts: said.get(name)!.texts, where: name }]] : [])),
    );
    this.#maxNumSeqs = maxNumSeqs;
  }

  /** Returns the values by key. null: not set, or the server's timing is not the one that the keys make. */
  read(timing: string | undefined): Record<string, string | null> {
    const held = this.#heldBy(timing);
    return Object.fromEntries(LATENCIES.map((name) => [name, held.get(name)?.texts.join(" ") ?? null]));
  }

  /** Applies changes and computes the new timing. The value null restores a default. `timing`: the server's current timing. */
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

/** Returns the reason why a key is not supported, or undefined if it is supported or unknown. */
export function unsupportedKey(name: string): string | undefined {
  const fate = Object.hasOwn(KEYS, name) ? KEYS[name]!.fate : null;
  return fate !== null && "unsupported" in fate ? fate.unsupported : undefined;
}
