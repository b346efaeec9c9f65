/**
 * Which instance of which model may run next, where all share resources? Pure: requests for an instance and instances that are
 * done go in, what may run comes out: `RateLimiter` of `rate_limiter.cc` (core 73aad7c3348d, 2026).
 *
 * An instance for which there is a batch is staged. Of those the one with the least executions times priority goes first, and
 * it alone is tried whenever an instance is staged or done: who stands behind it waits, even where its own resources are free.
 */
import type { TritonResource } from "../config/triton-config.ts";
import { invalidArg } from "../model-config/status.ts";

export interface LimitedInstance {
  readonly device: number;
  /** 2 gets half as many turns as 1; 0 is 1. */
  readonly priority: number;
  readonly resources: readonly { readonly name: string; readonly global: boolean; readonly count: number }[];
}

/** Has a batch run on that instance. */
export type RunBatch = (instance: number) => void;
/** To be called, in this order. */
export type Granted = readonly (() => void)[];

const GLOBAL = -2;
const EVERY_DEVICE = -1;

interface Need {
  readonly device: number;
  readonly name: string;
  readonly count: number;
}

interface Context {
  readonly model: LimitedModel;
  readonly at: number;
  readonly priority: number;
  readonly needs: readonly Need[];
  executions: number;
  /** Batches for this very instance. */
  readonly own: RunBatch[];
  run: RunBatch | null;
}

const turnOf = ({ executions, priority }: Context) => executions * Math.max(1, priority);
const keyOf = ({ device, name }: Need) => `${device} ${name}`;

/** The one with the least, of equal ones that which came first (the source leaves it open). */
function first(contexts: readonly Context[]): Context | undefined {
  let [best] = contexts;
  for (const one of contexts) if (turnOf(one) < turnOf(best!)) best = one;
  return best;
}

function remove<T>(list: T[], one: T): void {
  const at = list.indexOf(one);
  if (at >= 0) list.splice(at, 1);
}

export class RateLimiter {
  readonly #explicit: readonly TritonResource[];
  readonly #models = new Set<LimitedModel>();
  readonly #staged: Context[] = [];
  readonly #taken = new Map<string, number>();
  #limits: ReadonlyMap<string, number> = new Map();

  /** Without limits a resource has what the instance that needs most of it needs. */
  constructor(limits: readonly TritonResource[]) {
    this.#explicit = limits;
  }

  /** Throws a `TritonError` where an instance could never run, or a resource is of two kinds. */
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

  /** Nothing of it runs any more. */
  forget(model: LimitedModel): void {
    this.#models.delete(model);
    this.#limits = this.#counted();
  }

  stage(context: Context, run: RunBatch): Granted {
    context.run = run;
    this.#staged.push(context);
    return this.tried();
  }

  /** Lets the first of those that are staged run, if its resources are there. */
  tried(): Granted {
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

  giveBack({ needs }: Context): void {
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
    if (this.#explicit.length === 0) return count;
    const here = (of: number) => device === GLOBAL || of === device || of === EVERY_DEVICE;
    const given = this.#explicit.filter((one) => one.name === name && here(one.device));
    // Where one device has it twice, the least counts.
    const least = (of: number) => Math.min(...given.filter((one) => one.device === of).map((one) => one.count));
    const limit = Math.max(0, ...given.map((one) => least(one.device)));
    if (limit >= count) return limit;
    throw invalidArg(
      `Resource count for "${name}" is limited to ${limit} which will prevent scheduling of one or more model instances, the minimum required count is ${count}`,
    );
  }
}

/** The instances of one version of a model. */
export class LimitedModel {
  readonly contexts: readonly Context[];
  readonly #limiter: RateLimiter;
  /** In the order in which they became available. */
  readonly #available: Context[];
  /** Batches for whichever instance. */
  readonly #waiting: RunBatch[] = [];

  constructor(limiter: RateLimiter, instances: readonly LimitedInstance[]) {
    this.#limiter = limiter;
    this.contexts = instances.map(({ device, priority, resources }, at) => {
      const needs = new Map<string, Need>();
      for (const { name, global, count } of resources) {
        const need = { device: global ? GLOBAL : device, name, count };
        needs.set(keyOf(need), need);
      }
      return { model: this, at, priority, needs: [...needs.values()], executions: 0, own: [], run: null };
    });
    this.#available = [...this.contexts];
  }

  /** A batch wants to run: on that instance, or on any (null). */
  ask(run: RunBatch, instance: number | null): Granted {
    if (instance !== null) this.contexts[instance]!.own.push(run);
    else this.#waiting.push(run);
    return this.#stage(instance);
  }

  /** What was granted to that instance is done. */
  released(instance: number): Granted {
    const context = this.contexts[instance]!;
    context.executions++;
    this.#available.push(context);
    this.#limiter.giveBack(context);
    const more = this.#waiting.length + context.own.length > 0 ? this.#stage(instance) : [];
    return [...more, ...this.#limiter.tried()];
  }

  end(): void {
    this.#limiter.forget(this);
  }

  #stage(instance: number | null): Granted {
    const granted: (() => void)[] = [];
    let left = instance === null ? [...this.#available] : [this.contexts[instance]!];
    left = left.filter((one) => this.#available.includes(one));
    for (let context = first(left); context !== undefined; context = first(left)) {
      remove(left, context);
      const run = context.own.shift() ?? this.#waiting.shift();
      if (run === undefined) continue;
      remove(this.#available, context);
      granted.push(...this.#limiter.stage(context, run));
    }
    return granted;
  }
}
