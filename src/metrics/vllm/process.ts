/**
 * Process metrics of prometheus_client 0.26: `process_collector.py`, `gc_collector.py` and `platform_collector.py`.
 * Shows true numbers of our process from /proc, and constants for Python. Runs in the metrics thread, which belongs to
 * the same process.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { openFileLimit } from "../../base/descriptors.ts";
import { counter, gauge, type Proof, type Row } from "../rows/table.ts";

/** Clock ticks and page size of Linux on all machines on which Bun runs. */
const TICKS_PER_SECOND = 100;
const PAGE_BYTES = 4096;
/** Python version in the recording of vLLM 0.33. */
const PYTHON = { implementation: "CPython", major: "3", minor: "11", patchlevel: "7", version: "3.11.7" };
const NO_PYTHON: Proof = { still: "there is no Python here; the name exists for those who ask for it" };
const BY_ITSELF: Proof = { moves: "test/metrics/vllm/process.test.ts" };
const GENERATIONS = ["0", "1", "2"];

const read = (file: string) => readFileSync(`/proc/self/${file}`, "latin1");

/** Caches a value that is slow to determine and does not change. */
function once(find: () => number): () => number {
  let value = Number.NaN;
  return () => {
    if (Number.isNaN(value)) value = find();
    return value;
  };
}

/** Returns a field of /proc/self/statm in bytes: total size or resident size. */
const memoryBytes = (field: 0 | 1) => Number(read("statm").split(" ")[field]) * PAGE_BYTES;

/** Returns CPU seconds like /proc/self/stat: whole ticks of user and of system time. */
function cpuS(): number {
  const { user, system } = process.cpuUsage();
  const tickUs = 1e6 / TICKS_PER_SECOND;
  return (Math.floor(user / tickUs) + Math.floor(system / tickUs)) / TICKS_PER_SECOND;
}

const startTimeS = once(() => {
  const boot = Number(/^btime (\d+)/m.exec(readFileSync("/proc/stat", "latin1"))![1]);
  const stat = read("stat");
  // Fields after the name, which may contain blanks.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return boot + Number(fields[19]) / TICKS_PER_SECOND;
});

const maxFds = once(() => openFileLimit() ?? Number.NaN);

const DESCRIPTORS = "/proc/self/fd";
/** From Linux 6.2 on, the size of the folder is the number of descriptors. Listing 500 of them takes half a millisecond. */
let isCountedBySize = false;
/** Counts like Python's `listdir`: includes the descriptor that is used for listing. */
function openFds(): number {
  const bySize = statSync(DESCRIPTORS).size + 1;
  if (isCountedBySize) return bySize;
  const listed = readdirSync(DESCRIPTORS).length;
  isCountedBySize = listed === bySize;
  return listed;
}

/** Makes the row of a process metric. Like prometheus_client, it has no series without /proc. */
function processMetric(
  make: typeof gauge,
  name: string,
  help: string,
  value: () => number,
  proof: Proof = BY_ITSELF,
): Row {
  const read = () => {
    try {
      return [[{}, value()] as const];
    } catch {
      return [];
    }
  };
  return { ...make("now", `process_${name}`, help, read, proof), live: true };
}

const collected = (name: string, help: string) =>
  counter("now", name, help, () => GENERATIONS.map((generation) => [{ generation }, 0]), NO_PYTHON);

export const ownProcess: readonly Row[] = [
  collected("python_gc_objects_collected_total", "Objects collected during gc"),
  collected("python_gc_objects_uncollectable_total", "Uncollectable objects found during GC"),
  collected("python_gc_collections_total", "Number of times this generation was collected"),
  gauge("now", "python_info", "Python platform information", () => [[PYTHON, 1]], NO_PYTHON),
  processMetric(gauge, "virtual_memory_bytes", "Virtual memory size in bytes.", () => memoryBytes(0)),
  processMetric(gauge, "resident_memory_bytes", "Resident memory size in bytes.", () => memoryBytes(1)),
  processMetric(gauge, "start_time_seconds", "Start time of the process since unix epoch in seconds.", startTimeS, {
    still: "a process starts once",
  }),
  processMetric(counter, "cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpuS),
  processMetric(gauge, "open_fds", "Number of open file descriptors.", openFds),
  processMetric(gauge, "max_fds", "Maximum number of open file descriptors.", maxFds, {
    still: "the limit of a process does not change here",
  }),
];
