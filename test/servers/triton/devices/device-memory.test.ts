/** Tests the reservations of GPU memory, the weights of models, and the texts about them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { tritonServerConfig } from "../../../../src/cli/options/triton-server-config.ts";
import { presetWeightBytes } from "../../../../src/engine/timing/device-defaults.ts";
import { findPreset } from "../../../../src/engine/timing/presets.ts";
import { profiles } from "../../../../src/engine/timing/profiles/index.ts";
import { DeviceMemory, type MemoryReservation } from "../../../../src/servers/triton/devices/device-memory.ts";
import { sizeIn, sizeText } from "../../../../src/servers/triton/model-config/sizes.ts";

const GIB = 2 ** 30;
const held = (taken: MemoryReservation | string): MemoryReservation => {
  if (typeof taken === "string") throw new Error(taken);
  return taken;
};

const ENGINE = { weightBytes: 30 * GIB, kvBytes: 100 * GIB, gpus: 2 };

test("memory is counted per GPU, the engine only once, and released memory is free again", () => {
  const memory = new DeviceMemory({ gpuBytes: 80 * GIB, engine: ENGINE, loadLimits: new Map() });
  const first = held(memory.takeEngine());
  expect([first.weightBytes, first.text]).toEqual([
    30 * GIB,
    ", weights of 15.00 GiB and KV blocks of 50.00 GiB on GPU 0, 1",
  ]);
  const second = held(memory.takeEngine());
  expect(second.weightBytes).toBe(0);
  const small = held(memory.take("small", 5 * GIB, [0]));
  expect(memory.take("large", 11 * GIB, [1, 0])).toBe(
    "out of memory on GPU 0: weights of 11.00 GiB do not fit into the 10.00 GiB that are free of 80.00 GiB " +
      "(taken: the engine's weights 15.00 GiB, its KV blocks 50.00 GiB, small 5.00 GiB)",
  );
  const large = held(memory.take("large", 11 * GIB, [1]));
  // The engine does not run on this GPU.
  held(memory.take("other", 80 * GIB, [2]));
  expect(memory.take("more", 1, [2])).toBe(
    "out of memory on GPU 2: weights of 1 B do not fit into the 0 B that are free of 80.00 GiB (taken: other 80.00 GiB)",
  );
  // A model on the CPU takes no GPU memory.
  expect(held(memory.take("processor", 500 * GIB, [])).text).toBe("");
  first.give();
  first.give();
  expect(memory.take("late", 16 * GIB, [0])).toContain("its KV blocks 50.00 GiB");
  second.give();
  small.give();
  held(memory.take("late", 69 * GIB, [1]));
  large.give();
  expect(memory.takeEngine()).toBe(
    "out of memory on GPU 1: weights of 15.00 GiB and KV blocks of 50.00 GiB do not fit into the 11.00 GiB that are free of 80.00 GiB (taken: late 69.00 GiB)",
  );
});

test("without a limit everything fits, sizes with equal texts are printed in bytes, and of many models some are only counted", () => {
  const endless = new DeviceMemory({ gpuBytes: null, engine: ENGINE, loadLimits: new Map() });
  held(endless.take("large", 10_000 * GIB, [0]));
  held(endless.takeEngine());
  const memory = new DeviceMemory({ gpuBytes: 8 * GIB, engine: ENGINE, loadLimits: new Map() });
  expect(memory.take("a", 8 * GIB + 1, [0])).toBe(
    "out of memory on GPU 0: weights of 8589934593 B do not fit into the 8589934592 B that are free of 8589934592 B",
  );
  for (let at = 1; at <= 12; at++) held(memory.take(`m${at}`, at * 2 ** 20, [0]));
  const why = memory.take("b", 8 * GIB, [0]);
  expect(why).toContain("(taken: m12 12.00 MiB, m11 11.00 MiB");
  expect(why).toContain("m5 5.00 MiB, 4 models more)");
});

test("after any history of loads and unloads, exactly the loads that fit succeed", () => {
  const act = fc.oneof(
    fc.record({
      bytes: fc.integer({ min: 0, max: 12 }),
      gpus: fc.uniqueArray(fc.integer({ min: 0, max: 2 }), { maxLength: 3 }),
    }),
    fc.constant("engine" as const),
    fc.record({ gives: fc.nat(30) }),
  );
  fc.assert(
    fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
      const engine = { weightBytes: 4, kvBytes: 6, gpus: 2 };
      const memory = new DeviceMemory({ gpuBytes: 20, engine, loadLimits: new Map([[0, 0.5]]) });
      const holds: { readonly hold: MemoryReservation; readonly on: readonly number[]; readonly isEngine: boolean }[] =
        [];
      const taken = (gpu: number) => {
        const ofEngine = holds.some(({ isEngine }) => isEngine) && gpu < 2 ? 5 : 0;
        return holds.reduce((all, { on, isEngine }) => all + (isEngine ? 0 : on[gpu]!), ofEngine);
      };
      for (const one of acts) {
        if (typeof one === "object" && "gives" in one) {
          holds.splice(one.gives % Math.max(1, holds.length), 1)[0]?.hold.give();
          continue;
        }
        const isEngine = one === "engine";
        const hasEngine = holds.some((hold) => hold.isEngine);
        const on = [0, 1, 2].map((gpu) =>
          isEngine ? (gpu < 2 && !hasEngine ? 5 : 0) : one.gpus.includes(gpu) ? one.bytes : 0,
        );
        const fits = on.every((bytes, gpu) => bytes === 0 || taken(gpu) + bytes <= 20);
        const hold = isEngine ? memory.takeEngine() : memory.take("a", one.bytes, one.gpus);
        expect(typeof hold).toBe(fits ? "object" : "string");
        if (typeof hold === "object") holds.push({ hold, on, isEngine });
        expect(memory.isBeyondLimit(0)).toBe(taken(0) > 10);
      }
    }),
  );
});

test("sizes are only read with a unit, and are printed in the largest unit", () => {
  const read = ["80GiB", "24 GB", "1.5MiB", "0B", "7B", "80", "80G", "-1GiB", "2000TiB", "1e3MB", ""].map(sizeIn);
  expect(read).toEqual([80 * GIB, 24e9, 1.5 * 2 ** 20, 0, 7, ...new Array(6).fill(undefined)]);
  expect([1023, 1024, 1536 * 2 ** 10, 80 * GIB, 2 ** 40].map(sizeText)).toEqual([
    "1023 B",
    "1.00 KiB",
    "1.50 MiB",
    "80.00 GiB",
    "1.00 TiB",
  ]);
});

test("the weights of presets are the memory that their pools leave, which equals that of the parameters", () => {
  // The model has 8.03 billion parameters of 2 bytes.
  expect(presetWeightBytes(findPreset("llama-3.1-8b-bf16-h100-tp1-vllm")!) / 1e9).toBeCloseTo(16.06, 1);
  for (const profile of profiles) {
    const bytes = presetWeightBytes(profile);
    expect(bytes, profile.name).toBeGreaterThan(profile.precision === "bf16" ? 16e9 : 4e9);
    expect(bytes + profile.poolTokens * profile.kvBytesPerToken).toBeLessThan(profile.tp * profile.gpuMemoryBytes);
  }
});

test("--load-time, --device-memory and --model-load-gpu-limit are read, and wrong values are refused", () => {
  const read = (...flags: string[]) => {
    const made = tritonServerConfig(flags, "shipped");
    return "error" in made ? made.error : made.config.triton!;
  };
  expect(read()).toMatchObject({
    repository: { loadTime: { baseS: 1.3, perGibS: 0 } },
    memory: { deviceBytes: null },
  });
  expect(read("--load-time=0")).toMatchObject({ repository: { loadTime: { baseS: 0, perGibS: 0 } } });
  expect(read("--load-time=base=2,per_gib=.4", "--device-memory=24GiB")).toMatchObject({
    repository: { loadTime: { baseS: 2, perGibS: 0.4 } },
    memory: { deviceBytes: 24 * GIB },
  });
  for (const wrong of ["", "x", "-1", "3601", "per_gib=1", "base=1,per_gib=", "base=1,per_gib=4000", "1,per_gib=1"])
    expect(read(`--load-time=${wrong}`)).toBe(
      `--load-time: takes seconds from 0 to 3600, also as base=1.3,per_gib=0.4, not "${wrong}"`,
    );
  expect(
    read("--model-load-gpu-limit=0:.8", "--model-load-gpu-limit=1:1", "--model-load-gpu-limit=0:0.25"),
  ).toMatchObject({
    memory: {
      loadLimits: new Map([
        [0, 0.25],
        [1, 1],
      ]),
    },
  });
  for (const wrong of ["0.8", "0:1.1", "-1:0.5", "0:", "x:1"])
    expect(read(`--model-load-gpu-limit=${wrong}`)).toBe(
      `--model-load-gpu-limit: takes a GPU and a share of its memory from 0 to 1, as 0:0.8, not "${wrong}"`,
    );
  for (const wrong of ["80", "0GiB", "much"])
    expect(read(`--device-memory=${wrong}`)).toBe(
      `--device-memory: takes a size with its unit, as 80GiB or 512MB, at most 1024TiB, not "${wrong}"`,
    );
});
