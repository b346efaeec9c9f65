/** Compares the process families with values of this process from other system and runtime calls. */
import { expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { pages } from "../../../src/metrics/page.ts";
import { parseExposition } from "../parse.ts";
import { emptySnapshot, identity } from "../snapshots.ts";

const render = pages({ ...identity, ownProcess: true });
async function shown(name: string): Promise<number> {
  const families = parseExposition(await render("vllm", () => emptySnapshot()));
  return families.find((family) => family.name === name)!.samples[0]!.value;
}

// Without /proc these series are missing, as in prometheus_client.
const linux = test.skipIf(process.platform !== "linux");

linux("memory and time are those of the process", async () => {
  // The garbage collector may run in between.
  const around = [process.memoryUsage.rss()];
  const resident = await shown("process_resident_memory_bytes");
  around.push(process.memoryUsage.rss());
  expect(resident).toBeWithin(0.8 * Math.min(...around), 1.25 * Math.max(...around));
  expect(await shown("process_virtual_memory_bytes")).toBeGreaterThanOrEqual(resident);
  const { user, system } = process.cpuUsage();
  expect(await shown("process_cpu_seconds_total")).toBeWithin((user + system) / 1e6 - 0.1, (user + system) / 1e6 + 5);
  const startedS = performance.timeOrigin / 1000;
  expect(Math.abs((await shown("process_start_time_seconds")) - startedS)).toBeLessThan(60);
});

linux("process_cpu_seconds_total grows with work", async () => {
  const before = await shown("process_cpu_seconds_total");
  const usedS = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
  while (usedS() < before + 0.1) Bun.hash(new Uint8Array(1e6));
  expect(await shown("process_cpu_seconds_total")).toBeGreaterThan(before);
});

linux("process_open_fds counts a file that is open", async () => {
  const before = await shown("process_open_fds");
  const files = Array.from({ length: 20 }, () => openSync(import.meta.path, "r"));
  expect(await shown("process_open_fds")).toBeGreaterThanOrEqual(before + 15);
  for (const file of files) closeSync(file);
  expect(await shown("process_max_fds")).toBeGreaterThan(before);
});
