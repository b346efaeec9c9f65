/** In which state is each version of each model? `model_lifecycle.cc`; the errors of a look-up in Triton's words. */
import { TritonError } from "../config/status.ts";
import type { VersionFacts } from "../config/versions.ts";

export type ModelState = "UNKNOWN" | "READY" | "UNAVAILABLE" | "LOADING" | "UNLOADING";

export interface VersionEntry<M> {
  state: ModelState;
  /** Why it is in that state; "" where there is none. */
  reason: string;
  /** While it is READY or UNLOADING. */
  model: M | null;
}

export interface IndexEntry {
  readonly name: string;
  readonly version?: string;
  readonly state?: ModelState;
  readonly reason?: string;
}

export const UNLOADED = "unloaded";

/** What requests of the version are given to; null: nothing. */
export const servingOf = <M>({ state, model }: VersionEntry<M>): M | null => (state === "READY" ? model : null);

/** `M`: a version that is loaded. */
export class ModelTable<M> {
  readonly #models = new Map<string, Map<number, VersionEntry<M>>>();
  readonly #facts: VersionFacts;

  constructor(facts: VersionFacts) {
    this.#facts = facts;
  }

  entry(name: string, version: number): VersionEntry<M> {
    const versions = this.#models.get(name) ?? new Map<number, VersionEntry<M>>();
    this.#models.set(name, versions);
    const entry = versions.get(version) ?? { state: "UNKNOWN", reason: "", model: null };
    versions.set(version, entry);
    return entry;
  }

  knows(name: string): boolean {
    return this.#models.has(name);
  }

  versions(name: string): readonly (readonly [number, VersionEntry<M>])[] {
    return [...(this.#models.get(name) ?? [])].sort(([a], [b]) => a - b);
  }

  /** Names sorted, versions rising. */
  ready(): M[] {
    return [...this.#models.keys()].sort().flatMap((name) => this.readyOf(name));
  }

  readyOf(name: string): M[] {
    return this.versions(name).flatMap(([, entry]) => servingOf(entry) ?? []);
  }

  /** `version` -1: the highest that is ready. Throws a `TritonError`. */
  find(name: string, version: number): M {
    const versions = this.#models.get(name);
    if (versions === undefined)
      throw new TritonError(this.#facts.unknownModel, `Request for unknown model: '${name}' is not found`);
    if (version === -1) {
      let [highest, model]: [number, M | null] = [-1, null];
      for (const [own, entry] of versions)
        if (entry.state === "READY" && own > highest) [highest, model] = [own, entry.model];
      if (model !== null) return model;
      throw new TritonError("NOT_FOUND", `Request for unknown model: '${name}' has no available versions`);
    }
    const entry = versions.get(version);
    if (entry === undefined)
      throw new TritonError("NOT_FOUND", `Request for unknown model: '${name}' version ${version} is not found`);
    const model = servingOf(entry);
    if (model !== null) return model;
    throw new TritonError(
      "UNAVAILABLE",
      `Request for unknown model: '${name}' version ${version} is not at ready state`,
    );
  }

  /** Every version that was ever asked for is ready, or was unloaded on purpose. */
  get allReady(): boolean {
    return [...this.#models.values()].every((versions) =>
      [...versions.values()].every(
        ({ state, reason }) => state === "READY" || (state === "UNAVAILABLE" && reason === UNLOADED),
      ),
    );
  }

  /** `names`: of all folders, sorted, those that were never loaded included; what has none (a load brought its files) is left out. */
  *index(names: readonly string[], readyOnly: boolean): Generator<IndexEntry, void> {
    for (const name of names) {
      const versions = this.versions(name);
      if (versions.length === 0 && !readyOnly) yield { name };
      for (const [version, { state, reason }] of versions)
        if (!readyOnly || state === "READY")
          yield { name, version: `${version}`, state, ...(reason === "" ? {} : { reason }) };
    }
  }
}
