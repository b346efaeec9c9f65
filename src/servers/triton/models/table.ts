/** Stores the state of each version of each model. Source: `model_lifecycle.cc`. Errors of lookups use Triton's words. */
import { TritonError } from "../model-config/status.ts";
import type { VersionFacts } from "../model-config/versions.ts";

export type ModelState = "UNKNOWN" | "READY" | "UNAVAILABLE" | "LOADING" | "UNLOADING";

export interface VersionEntry<M> {
  state: ModelState;
  /** Reason of the state, or "". */
  reason: string;
  /** The loaded version while it is READY or UNLOADING, else null. */
  model: M | null;
}

export interface IndexEntry {
  readonly name: string;
  readonly version?: string;
  readonly state?: ModelState;
  readonly reason?: string;
}

/** Tells in which repositories model names occur. */
export interface Namespaces {
  /** Returns the repository of the loaded model, or "" if none is loaded. */
  readonly of: (name: string) => string;
  /** Returns the number of repositories with a model of this name. */
  readonly count: (name: string) => number;
}

/** A model folder in the repository index. */
export interface ListedModel {
  readonly name: string;
  /** The repository, or null if several repositories have a model of this name. */
  readonly repository: string | null;
}

export const UNLOADED = "unloaded";
const DUPLICATE = "model appears in two or more repositories";

/** Returns the version that receives requests, or null if it is not ready. */
export const readyModelOf = <M>({ state, model }: VersionEntry<M>): M | null => (state === "READY" ? model : null);

/**
 * A version that a client asked for. -1 means the highest. A bigint exceeds every version; it is kept exact for the error
 * message.
 */
export type VersionNumber = number | bigint;

/** `M`: type of a loaded version. */
export class ModelTable<M> {
  readonly #models = new Map<string, Map<number, VersionEntry<M>>>();

  /** `namespaces`: null without `--model-namespacing`. */
  constructor(
    private readonly facts: VersionFacts,
    private readonly namespaces: Namespaces | null = null,
  ) {}

  entry(name: string, version: number): VersionEntry<M> {
    const versions = this.#models.get(name) ?? new Map<number, VersionEntry<M>>();
    this.#models.set(name, versions);
    const entry = versions.get(version) ?? { state: "UNKNOWN", reason: "", model: null };
    versions.set(version, entry);
    return entry;
  }

  versions(name: string): readonly (readonly [number, VersionEntry<M>])[] {
    return [...(this.#models.get(name) ?? [])].sort(([a], [b]) => a - b);
  }

  /** Returns all ready versions, sorted by name and version. */
  ready(): M[] {
    return [...this.#models.keys()].sort().flatMap((name) => this.readyOf(name));
  }

  readyOf(name: string): M[] {
    return this.versions(name).flatMap(([, entry]) => readyModelOf(entry) ?? []);
  }

  /** Finds a version that is ready. `version` -1: the highest one. Throws a `TritonError`. */
  find(name: string, version: VersionNumber): M {
    const versions = this.#models.get(name);
    if (this.namespaces !== null) this.#mustBeOne(name, this.namespaces);
    if (versions === undefined) throw this.#unknown(name);
    if (version === -1) {
      let highest = -1;
      let model: M | null = null;
      // By key, because an iterator of entries creates a pair for each, and every request looks up its model.
      for (const candidate of versions.keys()) {
        if (candidate <= highest) continue;
        const entry = versions.get(candidate)!;
        if (entry.state !== "READY") continue;
        highest = candidate;
        model = entry.model;
      }
      if (model !== null) return model;
      throw new TritonError("NOT_FOUND", `Request for unknown model: '${name}' has no available versions`);
    }
    const entry = typeof version === "bigint" ? undefined : versions.get(version);
    if (entry === undefined)
      throw new TritonError(
        "NOT_FOUND",
        `Request for unknown model: '${this.#longName(name)}' version ${version} is not found`,
      );
    const model = readyModelOf(entry);
    if (model !== null) return model;
    throw new TritonError(
      "UNAVAILABLE",
      `Request for unknown model: '${name}' version ${version} is not at ready state`,
    );
  }

  /**
   * Returns all ready versions, each looked up by name. With namespaces the real server uses the long name, so that the lookup
   * fails; this throws the same error.
   */
  readyByName(): M[] {
    const first = [...this.#models.keys()].sort().find((name) => this.readyOf(name).length > 0);
    if (this.namespaces !== null && first !== undefined) throw this.#unknown(this.#longName(first));
    return this.ready();
  }

  /** Returns the name with its namespace, if there are namespaces. */
  #longName(name: string): string {
    return this.namespaces === null ? name : `${this.namespaces.of(name)}::${name}`;
  }

  #unknown(name: string): TritonError {
    const code = this.namespaces === null ? this.facts.unknownModel : "INVALID_ARG";
    return new TritonError(code, `Request for unknown model: '${name}' is not found`);
  }

  /** Checks that the name identifies exactly one model, as `FindModelIdentifier` does. Throws a `TritonError`. */
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

  /** True if every version that was ever loaded is ready or was unloaded on request. */
  get allReady(): boolean {
    return [...this.#models.values()].every((versions) =>
      [...versions.values()].every(
        ({ state, reason }) => state === "READY" || (state === "UNAVAILABLE" && reason === UNLOADED),
      ),
    );
  }

  /**
   * Lists the index of the repositories. `listed`: all model folders in order, also those never loaded. Omits models without a
   * folder, whose files came in a load request. A name in several repositories is listed even if only ready models are
   * requested. Source: `RepositoryIndex` in `model_repository_manager.cc` (2026).
   */
  *index(listed: readonly ListedModel[], readyOnly: boolean): Generator<IndexEntry, void> {
    for (const { name, repository } of listed) {
      if (repository === null) {
        yield { name, state: "UNAVAILABLE", reason: DUPLICATE };
        continue;
      }
      const isOther = this.namespaces !== null && ![repository, ""].includes(this.namespaces.of(name));
      const versions = isOther ? [] : this.versions(name);
      if (versions.length === 0 && !readyOnly) yield { name };
      for (const [version, { state, reason }] of versions)
        if (!readyOnly || state === "READY")
          yield { name, version: `${version}`, state, ...(reason === "" ? {} : { reason }) };
    }
  }
}
