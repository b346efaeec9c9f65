/** In which state is each version of each model? `model_lifecycle.cc`; the errors of a look-up in Triton's words. */
import { TritonError } from "../model-config/status.ts";
import type { VersionFacts } from "../model-config/versions.ts";

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

/** The repositories of models, by their names. */
export interface Namespaces {
  /** "": none is loaded. */
  readonly of: (name: string) => string;
  /** How many repositories have one of that name. */
  readonly count: (name: string) => number;
}

/** A folder of a model. */
export interface ListedModel {
  readonly name: string;
  /** null: several repositories have one of that name. */
  readonly repository: string | null;
}

export const UNLOADED = "unloaded";
const DUPLICATE = "model appears in two or more repositories";

/** What requests of the version are given to; null: nothing. */
export const servingOf = <M>({ state, model }: VersionEntry<M>): M | null => (state === "READY" ? model : null);

/** A version as a client asks for it; -1 is the highest. A bigint is beyond 2^53, which no version reaches, for the text of its error. */
export type VersionNumber = number | bigint;

/** `M`: a version that is loaded. */
export class ModelTable<M> {
  readonly #models = new Map<string, Map<number, VersionEntry<M>>>();
  readonly #facts: VersionFacts;
  readonly #namespaces: Namespaces | null;

  /** `namespaces`: null without `--model-namespacing`. */
  constructor(facts: VersionFacts, namespaces: Namespaces | null = null) {
    this.#facts = facts;
    this.#namespaces = namespaces;
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
  find(name: string, version: VersionNumber): M {
    const versions = this.#models.get(name);
    if (this.#namespaces !== null) this.#mustBeOne(name, this.#namespaces);
    if (versions === undefined) throw this.#unknown(name);
    if (version === -1) {
      let [highest, model]: [number, M | null] = [-1, null];
      for (const [own, entry] of versions)
        if (entry.state === "READY" && own > highest) [highest, model] = [own, entry.model];
      if (model !== null) return model;
      throw new TritonError("NOT_FOUND", `Request for unknown model: '${name}' has no available versions`);
    }
    const entry = typeof version === "bigint" ? undefined : versions.get(version);
    if (entry === undefined)
      throw new TritonError(
        "NOT_FOUND",
        `Request for unknown model: '${this.#longName(name)}' version ${version} is not found`,
      );
    const model = servingOf(entry);
    if (model !== null) return model;
    throw new TritonError(
      "UNAVAILABLE",
      `Request for unknown model: '${name}' version ${version} is not at ready state`,
    );
  }

  /** As `ready`, each looked up by its name. The real server does so by long names where there are some, and finds none. */
  readyByName(): M[] {
    const first = [...this.#models.keys()].sort().find((name) => this.readyOf(name).length > 0);
    if (this.#namespaces !== null && first !== undefined) throw this.#unknown(this.#longName(first));
    return this.ready();
  }

  /** As the server calls it beside those of other repositories. */
  #longName(name: string): string {
    return this.#namespaces === null ? name : `${this.#namespaces.of(name)}::${name}`;
  }

  #unknown(name: string): TritonError {
    const code = this.#namespaces === null ? this.#facts.unknownModel : "INVALID_ARG";
    return new TritonError(code, `Request for unknown model: '${name}' is not found`);
  }

  /** Throws a `TritonError` unless the name leads to one model: `FindModelIdentifier`. */
  #mustBeOne(name: string, { count }: Namespaces): void {
    const found = count(name);
    if (found > 1)
      throw new TritonError(
        "INVALID_ARG",
        `There are ${found} identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity.`,
      );
    if (this.#models.has(name) && this.readyOf(name).length === 0)
      throw new TritonError("NOT_FOUND", `Identifier of model '${name}' is not found in global map`);
  }

  /** Every version that was ever asked for is ready, or was unloaded on purpose. */
  get allReady(): boolean {
    return [...this.#models.values()].every((versions) =>
      [...versions.values()].every(
        ({ state, reason }) => state === "READY" || (state === "UNAVAILABLE" && reason === UNLOADED),
      ),
    );
  }

  /**
   * `listed`: all folders, in order, those that were never loaded included; what has none (a load brought its files) is left
   * out. A name of several is there whatever is asked for. `RepositoryIndex` of `model_repository_manager.cc` (2026).
   */
  *index(listed: readonly ListedModel[], readyOnly: boolean): Generator<IndexEntry, void> {
    for (const { name, repository } of listed) {
      if (repository === null) {
        yield { name, state: "UNAVAILABLE", reason: DUPLICATE };
        continue;
      }
      const isOther = this.#namespaces !== null && ![repository, ""].includes(this.#namespaces.of(name));
      const versions = isOther ? [] : this.versions(name);
      if (versions.length === 0 && !readyOnly) yield { name };
      for (const [version, { state, reason }] of versions)
        if (!readyOnly || state === "READY")
          yield { name, version: `${version}`, state, ...(reason === "" ? {} : { reason }) };
    }
  }
}
