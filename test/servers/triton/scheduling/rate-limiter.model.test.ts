/** Compares the rate limiter with a plain model for random histories, and tests the effect of its settings in a server. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import type { TritonResource } from "../../../../src/servers/triton/config/triton-config.ts";
import {
  type Grants,
  type LimitedInstance,
  RateLimiter,
} from "../../../../src/servers/triton/scheduling/rate-limiter.ts";
import { figure, seed, sized } from "../../../size.ts";
import { pureServer } from "../../../triton/pure-server.ts";

const CASES = sized("triton", { sample: 1000, whole: Number(process.env.TEST_CASES ?? 100_000) });
const base = mkdtempSync(join(tmpdir(), "rate-limiter-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const instance = (priority: number, resources: LimitedInstance["resources"], device = 0): LimitedInstance => ({
  device,
  priority,
  resources,
});
const need = (name: string, count: number, global = false) => ({ name, count, global });

/** A second, plain implementation of the rules. It has a list of instances with their states, which is searched each time. */
class PlainLimiter {
  readonly instances: {
    model: number;
    at: number;
    of: LimitedInstance;
    state: "free" | "staged" | "runs";
    since: number;
    executions: number;
    batch: string;
  }[] = [];
  readonly queues = new Map<string, string[]>();
  #time = 0;

  constructor(readonly models: readonly (readonly LimitedInstance[])[]) {
    for (const [model, all] of models.entries())
      for (const [at, of] of all.entries())
        this.instances.push({ model, at, of, state: "free", since: this.#time++, executions: 0, batch: "" });
  }

  #least(state: "free" | "staged", model: number | null, at: number | null) {
    const some = this.instances.filter(
      (one) => one.state === state && (model ?? one.model) === one.model && (at ?? one.at) === one.at,
    );
    const turn = (one: (typeof some)[number]) => one.executions * Math.max(1, one.of.priority);
    return some.sort((a, b) => turn(a) - turn(b) || a.since - b.since);
  }

  #fits(of: LimitedInstance): boolean {
    const limit = (name: string) =>
      Math.max(
        ...this.models.flat().flatMap((one) => one.resources.filter((r) => r.name === name).map((r) => r.count)),
      );
    const used = (name: string) =>
      this.instances
        .filter(({ state }) => state === "runs")
        .reduce((all, one) => all + (one.of.resources.find((r) => r.name === name)?.count ?? 0), 0);
    return of.resources.every(({ name, count }) => used(name) + count <= limit(name));
  }

  #try(run: string[]): void {
    const [head] = this.#least("staged", null, null);
    if (head === undefined || !this.#fits(head.of)) return;
    head.state = "runs";
    run.push(`${head.batch}@${head.model}.${head.at}`);
  }

  #stage(model: number, at: number | null, run: string[]): void {
    for (const one of this.#least("free", model, at)) {
      const batch = this.queues.get(`${model}.${one.at}`)?.shift() ?? this.queues.get(`${model}`)?.shift();
      if (batch === undefined) continue;
      Object.assign(one, { state: "staged", since: this.#time++, batch });
      this.#try(run);
    }
  }

  ask(model: number, at: number | null, batch: string): string[] {
    const key = at === null ? `${model}` : `${model}.${at}`;
    this.queues.set(key, [...(this.queues.get(key) ?? []), batch]);
    const run: string[] = [];
    this.#stage(model, at, run);
    return run;
  }

  released(model: number, at: number): string[] {
    const one = this.instances.find((it) => it.model === model && it.at === at)!;
    Object.assign(one, { state: "free", since: this.#time++, executions: one.executions + 1 });
    const run: string[] = [];
    this.#stage(model, at, run);
    this.#try(run);
    return run;
  }
}

// A name is either global for all models or for none. All instances are on one device, like in a server without GPUs.
const resources = fc
  .record({ r1: fc.integer({ min: 0, max: 4 }), r2: fc.integer({ min: 0, max: 4 }) })
  .map(({ r1, r2 }) => [need("R1", r1), need("R2", r2, true)].filter(({ count }) => count > 0));
const model = fc.array(fc.record({ priority: fc.integer({ min: 0, max: 3 }), resources, device: fc.constant(0) }), {
  minLength: 1,
  maxLength: 3,
});
const event = fc.record({ asks: fc.boolean(), which: fc.nat(20), own: fc.nat(5) });

test(`${CASES} histories run batches in the order of the plain model, and never use more of a resource than there is`, () => {
  let granted = 0;
  const history = (
    models: readonly LimitedInstance[][],
    events: readonly { asks: boolean; which: number; own: number }[],
  ) => {
    const limiter = new RateLimiter([]);
    const real = models.map((one) => limiter.register(one));
    const plain = new PlainLimiter(models);
    const running: [number, number][] = [];
    let got: string[] = [];
    for (const [at, { asks, which, own }] of events.entries()) {
      got = [];
      let wanted: string[];
      let runs: Grants;
      const play = (of: number, batch: string) => (place: number) => {
        got.push(`${batch}@${of}.${place}`);
        running.push([of, place]);
      };
      if (asks || running.length === 0) {
        const of = which % models.length;
        const certain = own < models[of]!.length ? own : null;
        wanted = plain.ask(of, certain, `b${at}`);
        runs = real[of]!.ask(play(of, `b${at}`), certain);
      } else {
        const [of, place] = running.splice(which % running.length, 1)[0]!;
        wanted = plain.released(of, place);
        runs = real[of]!.released(place);
      }
      for (const run of runs) run();
      expect(got).toEqual(wanted);
      granted += got.length;
      for (const name of ["R1", "R2"]) {
        const counts = models.flat().flatMap((one) => one.resources.filter((r) => r.name === name).map((r) => r.count));
        const used = running.map(
          ([of, place]) => models[of]![place]!.resources.find((r) => r.name === name)?.count ?? 0,
        );
        expect(used.reduce((all, one) => all + one, 0)).toBeLessThanOrEqual(Math.max(0, ...counts));
      }
    }
    // At the end the running batches end one after the other, and no batch waits forever.
    const waiting = () => [...plain.queues.values()].flat().length;
    for (let left = 1000; running.length > 0 && left > 0; left--) {
      const [of, place] = running.shift()!;
      plain.released(of, place);
      for (const run of real[of]!.released(place)) run();
    }
    expect([running.length, waiting()]).toEqual([0, 0]);
  };
  fc.assert(
    fc.property(
      fc.array(model, { minLength: 1, maxLength: 3 }),
      fc.array(event, { maxLength: 30, size: "max" }),
      history,
    ),
    {
      numRuns: CASES,
      seed,
    },
  );
  figure("limiterCases", CASES);
  figure("granted", granted);
});

test("an instance of priority 2 has half the turns of one of priority 1", () => {
  const limiter = new RateLimiter([]);
  const models = [1, 2].map((priority) => limiter.register([instance(priority, [need("R", 1)])]));
  const turns = [0, 0];
  let running = 0;
  const runs = (of: number) => () => {
    running = of;
    turns[of]!++;
  };
  const ask = (of: number): Grants => models[of]!.ask(runs(of), 0);
  for (const of of [0, 1]) for (let left = 50; left > 0; left--) for (const run of ask(of)) run();
  for (let left = 29; left > 0; left--) for (const run of models[running]!.released(0)) run();
  expect(turns).toEqual([20, 10]);
});

const limited = (...limits: [name: string, count: number, device?: number][]) =>
  new RateLimiter(limits.map(([name, count, device = -1]): TritonResource => ({ name, count, device })));
const refusal = (name: string, limit: number, least: number) =>
  `Resource count for "${name}" is limited to ${limit} which will prevent scheduling of one or more model instances, the minimum required count is ${least}`;

test.each([
  ["more than there is", limited(["R", 3]), [instance(1, [need("R", 4)])], refusal("R", 3, 4)],
  ["not named", limited(["S", 3]), [instance(1, [need("R", 1)])], refusal("R", 0, 1)],
  ["another device", limited(["R", 3, 1]), [instance(1, [need("R", 1)])], refusal("R", 0, 1)],
  ["the least of two counts", limited(["R", 3], ["R", 2]), [instance(1, [need("R", 3)])], refusal("R", 2, 3)],
  [
    "of both kinds",
    limited(),
    [instance(1, [need("R", 1)]), instance(1, [need("R", 1, true)])],
    'Resource "R" is present as both global and device-specific resource in the model configuration.',
  ],
])("refused: %s", (_, limiter, instances, why) => {
  expect(() => limiter.register(instances)).toThrow(why);
  // The refused model left no state.
  expect(limiter.register([instance(1, [])]).contexts).toHaveLength(1);
});

test("of the counts for one device, each device and all devices, the one that applies to the device is the limit", () => {
  const limiter = limited(["R", 1], ["R", 4, 0], ["G", 2, 7]);
  limiter.register([instance(1, [need("R", 4)]), instance(1, [need("R", 1)], 1), instance(1, [need("G", 2, true)])]);
  expect(() => limiter.register([instance(1, [need("R", 2)], 1)])).toThrow(refusal("R", 1, 2));
});

test("an unloaded model leaves no resource in use", () => {
  const limiter = new RateLimiter([]);
  const large = limiter.register([instance(1, [need("R", 2)])]);
  const small = limiter.register([instance(1, [need("R", 1)]), instance(1, [need("R", 1)])]);
  const both = () => [small.ask(() => {}, 0), small.ask(() => {}, 1)].map((granted) => granted.length);
  expect(both()).toEqual([1, 1]);
  for (const at of [0, 1]) small.released(at);
  large.end();
  expect(both()).toEqual([1, 0]);
});

const config = (more: string) => `
  backend: "python" max_batch_size: 4
  input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
  parameters { key: "understudy_us" value { string_value: "base=10000" } } ${more}`;
const shares = (count: number, more = "") =>
  config(`instance_group { count: 2 rate_limiter { resources { name: "R" count: ${count} } priority: 1 } } ${more}`);

/** Starts a server on a clock that only advances in `pass`. */
async function served(folders: Readonly<Record<string, string>>, ...flags: string[]) {
  const repository = mkdtempSync(join(base, "models-"));
  for (const [name, text] of Object.entries(folders)) {
    mkdirSync(join(repository, name, "1"), { recursive: true });
    writeFileSync(join(repository, name, "config.pbtxt"), text);
  }
  const clock = new VirtualClock();
  const server = pureServer([`--model-repository=${repository}`, "--rate-limit=execution_count", ...flags], clock);
  const failures = await server.start();
  const ask = (name: string) => {
    const data = new Uint8Array(4);
    const x = { name: "x", datatype: "FP32" as const, shape: [1, 1], data };
    const fields = { id: "", inputs: [x], outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
    server.infer(name, -1, fields, { respond: () => {} });
  };
  const pending = (name: string) => server.find(name, -1).statistics.reporter.pending;
  const pass = async (us: number) => {
    clock.advanceTo(clock.now() + us);
    for (let left = 20; left > 0; left--) await Promise.resolve();
  };
  return { server, failures, ask, pending, pass };
}

test("requests that wait for a resource, and later requests, are pending, and their batch may grow", async () => {
  const { server, failures, ask, pending, pass } = await served({
    a: shares(1),
    b: shares(1, "dynamic_batching { }"),
    free: config("instance_group { count: 2 }"),
  });
  expect(failures).toEqual([]);
  for (const name of ["a", "a", "b", "b", "b", "free", "free", "free"]) ask(name);
  expect(["a", "b", "free"].map(pending)).toEqual([1, 3, 3]);
  for (const left of [
    [0, 3, 3],
    [0, 0, 3],
    [0, 0, 2],
    [0, 0, 0],
  ]) {
    await pass(10_001);
    expect(["a", "b", "free"].map(pending)).toEqual(left);
  }
  await pass(10_001);
  expect(server.live).toBe(0);
  const counts = ["a", "b"].map((name) => {
    const { executions, inferences } = server.find(name, -1).statistics;
    return [executions, inferences];
  });
  expect(counts).toEqual([
    [2, 2],
    [1, 3],
  ]);
});

test("a model that could never run does not load, and others do", async () => {
  const limits = ["--rate-limit-resource=R:2", "--model-control-mode=explicit", "--load-model=*"];
  const { server, failures } = await served({ a: shares(2), b: shares(3) }, ...limits);
  expect(failures).toEqual([`b: version 1 is at UNAVAILABLE state: Invalid argument: ${refusal("R", 2, 3)};\n`]);
  expect(server.isReady("a", -1)).toBe(true);
});
