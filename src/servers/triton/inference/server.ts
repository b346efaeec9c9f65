/**
 * The server behind HTTP and gRPC: loads and unloads models, finds them, runs inference and reports readiness. Source:
 * `model_repository_manager.cc` and `server.cc` (2026). Loads and unloads run one after the other.
 */

import { inTurns, Stops } from "../../../base/pieces.ts";
import { Naps } from "../../../base/time/naps.ts";
import type { TritonLoadTime } from "../config/triton-config.ts";
import { DeviceMemory, type MemoryReservation } from "../devices/device-memory.ts";
import { Gpus } from "../devices/gpus.ts";
import { equalExceptInstances, instanceCount, isEnsemble } from "../model-config/model-config.ts";
import { internal, TritonError } from "../model-config/status.ts";
import { stepShapes } from "../model-config/step-shapes.ts";
import { wrongSteps } from "../model-config/validate-steps.ts";
import { TRITON_VERSIONS, type VersionFacts } from "../model-config/versions.ts";
import { Draining, liveOf } from "../models/draining.ts";
import { type FoundModel, type LoadOverride, NO_OVERRIDE, notUnique, Repository } from "../models/repository.ts";
import { type IndexEntry, ModelTable, readyModelOf, UNLOADED, type VersionNumber } from "../models/table.ts";
import { RateLimiter } from "../scheduling/rate-limiter.ts";
import { askModel } from "./asking.ts";
import { ResponseCache } from "./cache.ts";
import { type CountedModel, CountedModels } from "./counted.ts";
import {
  isOfEngine,
  type LoadedModel,
  loadSeconds,
  loadVersion,
  type ModelLoadDeps,
  takeMemory,
  unavailableReason,
} from "./load.ts";
import type { TritonOptions } from "./options.ts";
import { pollEvery } from "./polls.ts";
import { type InferReceiver, InferRequest, type RequestFields } from "./request.ts";
import type { ModelVersion, SharedParts } from "./served.ts";

export class TritonServer {
  readonly facts: VersionFacts;
  readonly id: string;
  readonly cache: ResponseCache | null;
  readonly #repository: Repository;
  readonly #table: ModelTable<ModelVersion>;
  /** Model folders as they were at their last load. */
  readonly #folders = new Map<string, FoundModel>();
  readonly #counted: CountedModels;
  readonly #around: ModelLoadDeps;
  readonly #memory: DeviceMemory;
  /** GPU memory of each loaded version. */
  readonly #reservations = new WeakMap<ModelVersion, MemoryReservation>();
  readonly #naps: Naps;
  readonly #draining = new Draining((ms) => this.#sleep(ms));
  /** Dimensions that ensembles need from outputs, by model and output. */
  readonly #shapes = new Map<string, readonly number[]>();
  /** Models loaded by name, not only as a step of an ensemble. */
  readonly #requestedModels = new Set<string>();
  /** Names that occurred in several repositories at the start, with the number of repositories. */
  #namesakes: ReadonlyMap<string, number> = new Map();
  /** Signatures of folders that failed to load. When a poll tries one again, it does not simulate the load time. */
  readonly #failed = new Map<string, string>();
  /** Ensembles that were unloaded with one of their steps. They are loaded again with that step. */
  readonly #droppedEnsembles = new Set<string>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly options: TritonOptions) {
    const { config, clock, epochMs, random, backends, turns, targets, log, countsByGpu: byGpu = false } = options;
    this.#naps = new Naps(clock);
    this.#counted = new CountedModels({ byGpu, targets, log });
    this.#memory = new DeviceMemory(options.memory);
    this.facts = TRITON_VERSIONS[config.version];
    this.id = config.id;
    this.cache = config.memory.cacheBytes === null ? null : new ResponseCache(config.memory.cacheBytes);
    this.#repository = new Repository(config.repository.folders, this.facts.laterFields);
    const of = (name: string) => this.#folders.get(name)?.repository ?? "";
    const count = (name: string) => this.#namesakes.get(name) ?? 1;
    this.#table = new ModelTable(this.facts, config.repository.namespacing ? { of, count } : null);
    const limiter = config.rateLimit && new RateLimiter(config.rateLimit);
    const { facts, cache } = this;
    const shared: SharedParts = { clock, epochMs, facts, cache, limiter, gpus: new Gpus(clock) };
    this.#around = {
      shared,
      backends,
      random,
      turns,
      sleep: (ms) => this.#sleep(ms),
      shapeFor: (model, output) => this.#shapes.get(`${model}/${output}`),
      find: (name, version) => this.find(name, version),
      stream: (...asked) => askModel(this, ...asked),
    };
  }

  get served(): readonly ModelVersion[] {
    return this.#table.ready();
  }

  get counted(): readonly CountedModel[] {
    return this.#counted.all;
  }

  /** Returns use and memory of the GPUs that models use. */
  gpusAt(nowUs: number): readonly { readonly gpu: number; readonly busyUs: number; readonly usedBytes: number }[] {
    const { gpus } = this.#around.shared;
    const use = (gpu: number) => ({ gpu, busyUs: gpus.busyUs(gpu, nowUs), usedBytes: this.#memory.usedBytes(gpu) });
    return gpus.all.map(use);
  }

  /** Number of requests without a last response. */
  get live(): number {
    return liveOf(this.#table.ready()) + this.#draining.live;
  }

  get ready(): boolean {
    if (!this.options.config.repository.strictReadiness) return true;
    const dead = this.facts.deadIsUnready && this.#table.ready().some((model) => model.dead);
    return this.#table.allReady && !dead;
  }

  /** Loads the initial models. Returns the reasons of failures. Throws if a repository is not a folder. */
  async start(): Promise<string[]> {
    const { control, loadModels, namespacing, loadTime } = this.options.config.repository;
    this.#namesakes = this.#repository.namesakes();
    const initialModels = control === "explicit" && !loadModels.includes("*") ? loadModels : this.#repository.names();
    const twice = control === "explicit" || namespacing ? [] : [...this.#namesakes.keys()];
    const failures = twice.map((name) => `${name}: ${notUnique(name)}`);
    for (const name of initialModels) this.#requestedModels.add(name);
    // Reserve the engine's memory before other models load, whatever the order of names.
    const engine = initialModels.some((name) => this.#isOfEngine(name)) ? this.#memory.takeEngine() : null;
    for (const name of initialModels) {
      const why = await this.#tryToBring(name);
      failures.push(...why.map((one) => `${name}: ${one}`));
    }
    if (typeof engine === "object") engine?.give();
    if (control === "poll")
      pollEvery(this.options, {
        names: () => this.#repository.names(),
        known: () => this.#folders.keys(),
        bring: (name) => this.#bring(name, NO_OVERRIDE, loadTime),
        unload: (name) => this.#unload(name),
        next: (act) => this.#next(act),
      });
    return failures;
  }

  #isOfEngine(name: string): boolean {
    try {
      return isOfEngine(this.#repository.read(name), this.#around.backends);
    } catch {
      // The load reports what is wrong with the folder.
      return false;
    }
  }

  find(name: string, version: VersionNumber): ModelVersion {
    return this.#table.find(name, version);
  }

  /** Returns ready versions: of all models, of one model, or one version. Throws a `TritonError` if a named model has none. */
  statistics(name: string | null, version: VersionNumber): readonly ModelVersion[] {
    if (name === null) return this.#table.readyByName();
    const found = this.#table.readyOf(name).filter((model) => version === -1 || model.version === version);
    if (found.length > 0) return found;
    const missing =
      version === -1
        ? `requested model '${name}' is not available`
        : `requested model version is not available for model '${name}'`;
    throw new TritonError("INVALID_ARG", missing);
  }

  /** Reports whether a version is ready. `version` -1: the highest ready one. */
  isReady(name: string, version: VersionNumber): boolean {
    const model = this.#readyVersion(name, version);
    return model !== undefined && !(this.facts.deadIsUnready && model.dead);
  }

  #readyVersion(name: string, version: VersionNumber): ModelVersion | undefined {
    return this.#table.readyOf(name).findLast((model) => version === -1 || model.version === version);
  }

  /** Returns the ready versions of a model in ascending order. */
  versions(name: string): readonly number[] {
    return this.#table.readyOf(name).map(({ version }) => version);
  }

  /** Yields the entries of the repository index. */
  index(readyOnly: boolean): Iterable<IndexEntry> {
    return this.#table.index(this.#repository.listed(this.options.config.repository.namespacing), readyOnly);
  }

  /** Starts a request. Throws a `TritonError` if it is refused. */
  infer(name: string, version: VersionNumber, fields: RequestFields, receiver: InferReceiver): InferRequest {
    const model = this.find(name, version);
    const startUs = this.options.clock.now();
    const request = new InferRequest(model.config, fields, receiver, this.facts.checksSequenceId);
    request.startUs = startUs;
    model.submit(request);
    return request;
  }

  /** Loads a model. Rejects with a `TritonError`. */
  load(name: string, override: LoadOverride): Promise<void> {
    this.#mayControl();
    return this.#next(async () => {
      const why = await this.#bring(name, override, this.options.config.repository.loadTime).catch((error: Error) => {
        this.options.log(`failed to load '${name}': ${error.message}`);
        throw internal(`failed to load '${name}', failed to poll from model repository`);
      });
      if (why.length > 0) throw new TritonError("INVALID_ARG", `load failed for model '${name}': ${why.join("")}`);
      this.#requestedModels.add(name);
      await this.#rejoin(name);
    });
  }

  /** Unloads a model in the background. Ignores a name that is not loaded. */
  unload(name: string, dependents: boolean): void {
    this.#mayControl();
    const steps = dependents ? this.#stepsOf(name).filter((step) => !this.#requestedModels.has(step)) : [];
    for (const model of [name, ...steps]) {
      this.#unload(model);
      this.#requestedModels.delete(model);
      this.#droppedEnsembles.delete(model);
    }
  }

  #stepsOf(name: string): readonly string[] {
    return (this.#folders.get(name)?.config.ensemble_scheduling?.step ?? []).map(({ model_name: step = "" }) => step);
  }

  /** Loads ensembles again that were unloaded with this step, if all their steps are ready. */
  async #rejoin(name: string): Promise<void> {
    this.#droppedEnsembles.delete(name);
    for (const ensemble of [...this.#droppedEnsembles]) {
      const steps = this.#stepsOf(ensemble);
      if (!steps.includes(name) || !steps.every((step) => this.#readyVersion(step, -1))) continue;
      const why = await this.#tryToBring(ensemble);
      if (why.length === 0) await this.#rejoin(ensemble);
    }
  }

  #mayControl(): void {
    if (this.options.config.repository.control === "explicit") return;
    throw new TritonError("UNAVAILABLE", "explicit model load / unload is not allowed if polling is enabled");
  }

  #next<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(act);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** Loads a model with the configuration in its folder. Returns the errors, also if the folder cannot be read. */
  #tryToBring(name: string, time: TritonLoadTime | null = null, above: readonly string[] = []): Promise<string[]> {
    return this.#bring(name, NO_OVERRIDE, time, above).catch((error: Error) => [error.message]);
  }

  /** Loads a model and its steps. Returns the errors of versions that did not load. Rejects if the folder cannot be read. */
  async #bring(
    name: string,
    override: LoadOverride,
    time: TritonLoadTime | null,
    above: readonly string[] = [],
  ): Promise<string[]> {
    if (above.includes(name)) return [`circular dependency between ensembles: ${[...above, name].join(" -> ")}`];
    const { turns } = this.options;
    const read = await inTurns(this.#repository.reading(name, override), turns);
    const stops = new Stops(turns);
    for (const step of new Set(read.config.ensemble_scheduling?.step?.map(({ model_name: of = "" }) => of))) {
      await stops.look();
      const why = await this.#tryToBring(step, time, [...above, name]);
      if (why.length > 0 || this.versions(step).length === 0)
        return this.#refuse(
          read,
          `Invalid argument: ensemble '${name}' depends on '${step}' which has no loaded version. Model '${step}' loading failed with error: ${why.join("")};`,
        );
    }
    for (const { model_name: step = "", model_version: version = -1 } of read.config.ensemble_scheduling?.step ?? [])
      if (version > 0 && !this.#readyVersion(step, version))
        return this.#refuse(
          read,
          `Invalid argument: ensemble '${name}' depends on '${step}' whose required version ${version} is not loaded.`,
        );
    const configOf = (step: string) => this.#folders.get(step)?.config;
    const unfit = await inTurns(wrongSteps(read.config, configOf), turns);
    if (unfit !== undefined) return this.#refuse(read, `Invalid argument: ${unfit}`);
    for (const [model, output, dims] of await inTurns(stepShapes(read.config, configOf), turns))
      this.#shapes.set(`${model}/${output}`, dims);
    const folder = this.#repository.withSteps(read, configOf);
    const before = this.#folders.get(name);
    const same = before?.signature === folder.signature;
    if (same && folder.versions.every((version) => this.#readyVersion(name, version))) return [];
    if (folder.versions.length === 0)
      return [`at least one version must be available under the version policy of model '${name}'\n`];
    const failures: string[] = [];
    const asBefore = this.options.config.repository.control === "poll" && this.#failed.get(name) === folder.signature;
    for (const version of folder.versions) {
      const why = await this.#version(folder, version, asBefore ? null : time);
      if (why === null) continue;
      const state = this.#changesInPlace(folder, version) ? "READY" : "UNAVAILABLE";
      failures.push(`version ${version} is at ${state} state: ${why};\n`);
    }
    this.#failed.set(name, failures.length === 0 ? "" : folder.signature);
    if (failures.length === 0 || before === undefined) this.#folders.set(name, folder);
    for (const version of this.versions(name)) if (!folder.versions.includes(version)) void this.#retire(name, version);
    return failures;
  }

  /** True if only the instances or the version policy have changed, so that a ready version is not reloaded as a new one. */
  #changesInPlace({ name, config }: FoundModel, version: number): boolean {
    const before = readyModelOf(this.#table.entry(name, version));
    return before !== null && equalExceptInstances(before.config, config);
  }

  #refuse(folder: FoundModel, why: string): string[] {
    for (const version of folder.versions)
      Object.assign(this.#table.entry(folder.name, version), { state: "UNAVAILABLE", reason: why });
    return [why];
  }

  /** Loads a version. Returns null, or the reason of the failure. A previous version serves until the new one is ready. */
  async #version(folder: FoundModel, version: number, time: TritonLoadTime | null): Promise<string | null> {
    const { name } = folder;
    const entry = this.#table.entry(name, version);
    const before = readyModelOf(entry);
    if (before === null) Object.assign(entry, { state: "LOADING", reason: "", model: null });
    const fromUs = this.options.clock.now();
    let hold: MemoryReservation | null = null;
    try {
      hold = takeMemory(folder, version, this.#memory, this.#around.backends);
      this.#around.shared.gpus.addMissing(hold.gpus);
      const loadS = time === null || isEnsemble(folder.config) ? 0 : loadSeconds(time, hold.weightBytes);
      if (loadS > 0) await this.#sleep(loadS * 1000);
      const inPlace = before !== null && this.#changesInPlace(folder, version);
      const { version_policy: policy } = (inPlace ? before : folder).config;
      const given = inPlace ? { ...folder, config: { ...folder.config, version_policy: policy } } : folder;
      const { model, from } = await this.#loaded(given, version, fromUs, before, inPlace);
      this.#reservations.set(model, hold);
      Object.assign(entry, { state: "READY", reason: "", model });
      if (before !== null) void this.#drained(before).then(() => this.#counted.ended(before));
      this.options.log(`model ${name} version ${version}: ${from}${hold.text}`);
      return null;
    } catch (error) {
      hold?.give();
      if (!(error instanceof TritonError)) throw error;
      const reason = unavailableReason(error);
      if (before === null) Object.assign(entry, { state: "UNAVAILABLE", reason });
      return reason;
    }
  }

  /** `before`: the version that served until now. `inPlace`: its statistics continue. */
  async #loaded(
    folder: FoundModel,
    version: number,
    fromUs: number,
    before: ModelVersion | null,
    inPlace: boolean,
  ): Promise<LoadedModel> {
    const { clock } = this.options;
    const counts = this.#counted.forLoad(folder, version, clock.now(), inPlace ? before!.statistics : null);
    const loaded = await loadVersion(folder, version, counts, this.#around);
    counts.statistics.reporter.loadS = (clock.now() - fromUs) / 1e6;
    this.#counted.serves(loaded.model, folder, counts.onGpus);
    return loaded;
  }

  #unload(name: string): void {
    for (const version of this.versions(name)) void this.#retire(name, version);
    const above = [...this.#folders.values()].filter(
      ({ config }) =>
        config.ensemble_scheduling?.step?.some(({ model_name: step }) => step === name) &&
        this.#readyVersion(config.name, -1),
    );
    for (const ensemble of above) {
      this.#unload(ensemble.name);
      this.#droppedEnsembles.add(ensemble.name);
    }
  }

  /** Unloads a version after its running requests. Meanwhile the version may be loaded again. */
  async #retire(name: string, version: number): Promise<void> {
    const entry = this.#table.entry(name, version);
    const model = readyModelOf(entry);
    if (model === null) return;
    entry.state = "UNLOADING";
    await this.#drained(model);
    if (!isEnsemble(model.config))
      await this.#sleep(instanceCount(model.config) * this.options.config.repository.unloadS * 1000);
    this.#counted.ended(model);
    if (entry.model === model) Object.assign(entry, { state: "UNAVAILABLE", reason: UNLOADED, model: null });
  }

  async #drained(model: ModelVersion): Promise<void> {
    await this.#draining.drained(model);
    model.unloaded?.();
    this.#reservations.get(model)?.give();
  }

  #sleep(ms: number): Promise<void> {
    return this.#naps.sleep(ms);
  }
}
