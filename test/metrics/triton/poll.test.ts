/** Tests the values that only change with Triton's polling: host, GPUs and pinned memory. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { ensembleWidth } from "../../../src/metrics/ensemble/ensemble.ts";
import { MeterField } from "../../../src/metrics/ensemble/model-numbers.ts";
import { Poller } from "../../../src/metrics/triton/poll.ts";
import { tritonRows } from "../../../src/metrics/triton/table.ts";
import { emptyEngine, emptySnapshot, identity } from "../snapshots.ts";

const at = (...engines: readonly (readonly [aliveMs: number, busyMs: number])[]) =>
  emptySnapshot(
    engines.map(([aliveMs, busyMs]) => {
      const meters = Array<number>(ensembleWidth(0)).fill(0);
      meters[MeterField.aliveUs] = aliveMs * 1000;
      return { ...emptyEngine(), busyUs: busyMs * 1000, meters };
    }),
  );

/** Families and their values over the life of one server. */
function server(changes: Partial<typeof identity.triton> = {}) {
  const changed = { ...identity, triton: { ...identity.triton, ...changes } };
  const rows = tritonRows(changed);
  return (snapshot: ReturnType<typeof at>, name: string) =>
    rows
      .find((row) => row.name === name)!
      .samples(snapshot, changed)
      .map(({ value }) => value);
}

test("GPU values change every half interval, by the steps since the previous poll", () => {
  const read = server();
  const all = (snapshot: ReturnType<typeof at>) =>
    [
      "nv_gpu_utilization",
      "nv_gpu_power_usage",
      "nv_energy_consumption",
      "nv_gpu_power_limit",
      "nv_gpu_memory_total_bytes",
      "nv_gpu_memory_used_bytes",
      "nv_pinned_memory_pool_total_bytes",
    ].map((name) => read(snapshot, name)[0]);
  expect(all(at([900, 500]))).toEqual([0, 0, 0, 0, 0, 0, 0]);
  const memory = [85_899_345_920, 77_309_411_328, 268_435_456];
  // An H100: 70 W idle, 595 W at work, 700 W limit.
  const first = [0.25, 70 + 0.25 * 525, 70 * 2 + 525 * 0.5, 700, ...memory];
  expect(all(at([2000, 500]))).toEqual(first);
  expect(all(at([2900, 1400]))).toEqual(first);
  expect(all(at([3000, 1500]))).toEqual([1, 595, 70 * 3 + 525 * 1.5, 700, ...memory]);
  expect(all(at([4000, 1500]))).toEqual([0, 70, 70 * 4 + 525 * 1.5, 700, ...memory]);
});

test("--metrics-interval-ms sets the interval", () => {
  const read = server({ intervalMs: 500 });
  expect(read(at([249, 100]), "nv_gpu_utilization")).toEqual([0]);
  expect(read(at([250, 100]), "nv_gpu_utilization")).toEqual([0.4]);
  expect(read(at([499, 349]), "nv_gpu_utilization")).toEqual([0.4]);
  expect(read(at([500, 350]), "nv_gpu_utilization")).toEqual([1]);
});

test("each engine has its GPUs", () => {
  const [gpu] = identity.triton.gpus;
  const read = server({ gpus: [gpu!, gpu!] });
  expect(read(at([1000, 100], [1000, 300]), "nv_gpu_utilization")).toEqual([0.1, 0.1, 0.3, 0.3]);
});

const PROC = {
  stat: ["cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1\n", "cpu  150 10 120 800 120 0 0 0 0 0\ncpu0 1\n"],
  meminfo: "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n",
};

test("nv_cpu_utilization, nv_cpu_memory_total_bytes and nv_cpu_memory_used_bytes have the values of /proc", () => {
  let polls = 0;
  const poller = new Poller((file) => (file === "meminfo" ? PROC.meminfo : PROC.stat[polls++]!));
  const changed = { ...identity.triton, cpu: true };
  const host = (aliveMs: number) => poller.take(at([aliveMs, 0]), changed).host;
  expect(host(10)).toEqual({ cpuUtilization: 0, memoryTotalBytes: 0, memoryUsedBytes: 0 });
  const memory = { memoryTotalBytes: 1_024_000, memoryUsedBytes: 614_400 };
  expect(host(1000)).toEqual({ cpuUtilization: 0.2, ...memory });
  expect(host(1999)).toEqual({ cpuUtilization: 0.2, ...memory });
  expect(host(2000)).toEqual({ cpuUtilization: 80 / 200, ...memory });
  expect(polls).toBe(2);
});

test("without /proc the host shows 0", () => {
  const poller = new Poller(() => {
    throw new Error("no such file");
  });
  const { host } = poller.take(at([5000, 0]), { ...identity.triton, cpu: true });
  expect(host).toEqual({ cpuUtilization: 0, memoryTotalBytes: 0, memoryUsedBytes: 0 });
});

test("this machine's values are plausible", () => {
  const { host } = new Poller().take(at([1000, 0]), { ...identity.triton, cpu: true });
  expect(host.cpuUtilization).toBeWithin(0, 1.000001);
  expect(host.memoryUsedBytes).toBeWithin(1, host.memoryTotalBytes);
});

test("under random load, shares are in [0, 1] and energy never falls", () =>
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(5000), fc.nat(8000)), { maxLength: 30 }), (turns) => {
      const read = server();
      let [aliveMs, busyMs, joules] = [0, 0, 0];
      for (const [alive, busy] of turns) {
        aliveMs += alive;
        busyMs += busy;
        const snapshot = at([aliveMs, busyMs]);
        const [share] = read(snapshot, "nv_gpu_utilization");
        const [energy] = read(snapshot, "nv_energy_consumption");
        expect(share).toBeWithin(0, 1.000001);
        expect(energy).toBeGreaterThanOrEqual(joules);
        joules = energy!;
      }
    }),
  ));
