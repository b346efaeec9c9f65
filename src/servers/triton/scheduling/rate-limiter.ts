/**
 * Decides which instance runs next if models share resources. Pure: takes batches and finished instances, and returns the
 * batches that may start. Source: `RateLimiter` in `rate_limiter.cc` (core 73aad7c3348d, 2026).
 *
 * An instance with a batch is staged. The staged instance with the lowest product of executions and priority comes first. Only
 * that instance is tried when an instance is staged or finishes; the others wait behind it, even if their own resources are
 * free.
 */
import type { TritonResource } from "../config/triton-config.ts";
import { invalidArg } from "../model-config/status.ts";

export interface LimitedInstance {
  readonly device: number;
  /** Priority of the instance. 2 gets half as many turns as 1. 0 counts as 1. */
  readonly priority: number;
  readonly resources: readonly { readonly name: string; readonly global: boolean; readonly count: number }[];
}

/** Runs a batch on the instance with this index. */
export type RunBatch = (instance: number) => void;
/** Batches that may start. The caller calls these functions in order. */
export type Grants = readonly (() => void)[];

const GLOBAL = -2;
const EVERY_DEVICE = -1;

interface Need {
  readonly device: number;
  readonly name: string;
  readonly count: number;
}

class InstanceContext {
  executions = 0;
  /** Batches that must run on this instance. */
  readonly ownBatches: RunBatch[] = [];
  run: RunBatch | null = null;

  constructor(
    readonly at: number,
    readonly priority: number,
    readonly needs: readonly Need[],
  ) {}
}

const turnOf = ({ executions, priority }: InstanceContext) => executions * Math.max(1, priority);
const keyOf = ({ device, name }: Need) => `${device} ${name}`;

/** Returns the context with the lowest turn. Of equal contexts the first wins; Triton's source leaves this open. */
function first(contexts: readonly InstanceContext[]): InstanceContext | undefined {
  let [best] = contexts;
  for (const candidate of contexts) if (turnOf(candidate) < turnOf(best!)) best = candidate;
  return best;
}

function remove<T>(list: T[], item: T): void {
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
}

export class RateLimiter {
  readonly #models = new Set<LimitedModel>();
  readonly #staged: InstanceContext[] = [];
  readonly #taken = new Map<string, number>();
  #limits: ReadonlyMap<string, number> = new Map();

  /**
   * `explicit`: the configured amounts of resources. If empty, each resource has as much as the most demanding instance needs.
   */
  constructor(private readonly explicit: readonly TritonResource[]) {}

  /** Adds a model. Throws a `TritonError` if an instance could never run, or if a resource is both global and per device. */
  register(instances: readonly LimitedInstance[]): LimitedModel {
    const model = new LimitedModel(this, instances);
    this.#models.add(model);
    try {
      this.#limits = this.#counted();
    } catch (why) {
      this.#models.delete(model);
      throw why;
    }
    return model;
  }

  /** Removes a model that has no running batch. */
  forget(model: LimitedModel): void {
    this.#models.delete(model);
    this.#limits = this.#counted();
  }

  stage(context: InstanceContext, run: RunBatch): Grants {
    context.run = run;
    this.#staged.push(context);
    return this.tried();
  }

  /** Starts the first staged instance if its resources are free. */
  tried(): Grants {
    const context = first(this.#staged);
    const taken = (need: Need) => this.#taken.get(keyOf(need)) ?? 0;
    const there = (need: Need) => taken(need) + need.count <= this.#limits.get(keyOf(need))!;
    if (context === undefined || !context.needs.every(there)) return [];
    for (const need of context.needs) this.#taken.set(keyOf(need), taken(need) + need.count);
    remove(this.#staged, context);
    const run = context.run!;
    context.run = null;
    return [() => run(context.at)];
  }

  giveBack({ needs }: InstanceContext): void {
    for (const need of needs) this.#taken.set(keyOf(need), this.#taken.get(keyOf(need))! - need.count);
  }

  #counted(): ReadonlyMap<string, number> {
    const most = new Map<string, Need>();
    for (const { contexts } of this.#models)
      for (const need of contexts.flatMap(({ needs }) => needs))
        if (need.count > (most.get(keyOf(need))?.count ?? -1)) most.set(keyOf(need), need);
    const needs = [...most.values()].sort((a, b) => a.device - b.device || (a.name < b.name ? -1 : 1));
    const limits = new Map(needs.map((need) => [keyOf(need), this.#limit(need)]));
    const global = new Set(needs.filter(({ device }) => device === GLOBAL).map(({ name }) => name));
    const both = needs.find(({ device, name }) => device !== GLOBAL && global.has(name));
    if (both)
      throw invalidArg(
        `Resource "${both.name}" is present as both global and device-specific resource in the model configuration.`,
      );
    return limits;
  }

  #limit({ device, name, count }: Need): number {
    if (this.explicit.length === 0) return count;
    const here = (of: number) => device === GLOBAL || of === device || of === EVERY_DEVICE;
    const matching = this.explicit.filter((resource) => resource.name === name && here(resource.device));
    // If a device lists a resource twice, the smaller amount counts.
    const least = (of: number) =>
      Math.min(...matching.filter((resource) => resource.device === of).map((one) => one.count));
    const limit = Math.max(0, ...matching.map((resource) => least(resource.device)));
    if (limit >= count) return limit;
    throw invalidArg(
      `Resource count for "${name}" is limited to ${limit} which will prevent scheduling of one or more model instances, the minimum required count is ${count}`,
    );
  }
}

/** The instances of one model version. */
export class LimitedModel {
  readonly contexts: readonly InstanceContext[];
  readonly #limiter: RateLimiter;
  /** Idle instances, in the order in which they became idle. */
  readonly #available: InstanceContext[];
  /** Batches that may run on any instance. */
  readonly #waiting: RunBatch[] = [];

  constructor(limiter: RateLimiter, instances: readonly LimitedInstance[]) {
    this.#limiter = limiter;
    this.contexts = instances.map(({ device, priority, resources }, at) => {
      const needs = new Map<string, Need>();
      for (const { name, global, count } of resources) {
        const need = { device: global ? GLOBAL : device, name, count };
        needs.set(keyOf(need), need);
      }
      return new InstanceContext(at, priority, [...needs.values()]);
    });
    this.#available = [...this.contexts];
  }

  /** Requests an instance for a batch. `instance` null: any instance. */
  ask(run: RunBatch, instance: number | null): Grants {
    if (instance !== null) this.contexts[instance]!.ownBatches.push(run);
    else this.#waiting.push(run);
    return this.#stage(instance);
  }

  /** Reports that the instance has finished its batch. */
  released(instance: number): Grants {
    const context = this.contexts[instance]!;
    context.executions++;
    this.#available.push(context);
    this.#limiter.giveBack(context);
    const more = this.#waiting.length + context.ownBatches.length > 0 ? this.#stage(instance) : [];
    return [...more, ...this.#limiter.tried()];
  }

  end(): void {
    this.#limiter.forget(this);
  }

  #stage(instance: number | null): Grants {
    const granted: (() => void)[] = [];
    let left = instance === null ? [...this.#available] : [this.contexts[instance]!];
    left = left.filter((context) => this.#available.includes(context));
    for (let context = first(left); context !== undefined; context = first(left)) {
      remove(left, context);
      const run = context.ownBatches.shift() ?? this.#waiting.shift();
      if (run === undefined) continue;
      remove(this.#available, context);
      granted.push(...this.#limiter.stage(context, run));
    }
    return granted;
  }
}
