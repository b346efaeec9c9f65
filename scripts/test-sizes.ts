/**
 * Lists the tests that have two sizes (test/size.ts): a sample and a whole. `npx bun run test NAME` runs the whole of a test
 * and adds its result to test/results/NAME.jsonl.
 */

export interface SizedTest {
  /** Paths of the test's files or folders. */
  readonly paths: readonly string[];
  /**
   * Names of options with a whole number that the command line accepts in addition to `--seed`. `--seconds 9` sets
   * TEST_SECONDS=9.
   */
  readonly options: readonly string[];
  /**
   * Names of tools that `--without-NAME` leaves out. If such a tool is missing without that word, the test fails, except for
   * cargo, whose part is left out with a printed line.
   */
  readonly tools?: readonly string[];
  /** Packages of Debian by the names of tools that must be on the path. The run names each missing tool and fails at once. */
  readonly packages?: Readonly<Record<string, string>>;
}

/** Tools of the image's test, and their packages in Debian. */
const IMAGE_TOOLS = { buildah: "buildah", mmdebstrap: "mmdebstrap", ip: "iproute2", prometheus: "prometheus" };

/** Folders whose tests run together in one process, by the folders of `src` that they test. */
const MIRROR = [
  ...["app", "assembly", "base", "bench", "cli", "docs", "engine", "kernel", "metrics", "scripts", "servers", "text"],
  ...["tools/check", "tools/fit", "tools/kv-check", "tools/replay", "tools/report", "truth", "wire", "workloads"],
];

export const SIZED: Readonly<Record<string, SizedTest>> = {
  long: { paths: ["test/long"], options: ["inputs", "seconds"] },
  soak: { paths: ["test/soak"], options: ["minutes"] },
  bugmodes: { paths: ["test/bugmodes"], options: [] },
  structured: { paths: ["test/text/grammar", "test/conformance/structured.test.ts"], options: [] },
  descriptors: { paths: ["test/conformance/stream-writes.test.ts"], options: [] },
  stress: { paths: ["test/tools/stress"], options: [] },
  triton: { paths: ["test/triton", "test/servers/triton", "test/prometheus/triton.test.ts"], options: ["cases"] },
  record: { paths: ["test/tools/proxy"], options: [] },
  faults: { paths: ["test/faults"], options: [] },
  lengths: { paths: ["test/conformance/output-lengths.test.ts"], options: [] },
  laws: { paths: ["test/tools/check/laws/own-metrics.sim.test.ts"], options: [] },
  "kv-check": { paths: ["test/tools/kv-check"], options: [] },
  clients: { paths: ["test/clients"], options: [] },
  services: { paths: ["test/services"], options: [] },
  fronts: {
    paths: ["test/fronts", "test/servers/vllm-engine", "test/wire/zmtp/random-bytes.test.ts"],
    options: ["requests"],
    tools: ["vllm-rs", "python"],
  },
  "kv-events": { paths: ["test/kv-events"], options: [], tools: ["cargo"] },
  library: { paths: ["test/embed"], options: [] },
  runners: { paths: ["test/runners"], options: [] },
  properties: {
    paths: [...MIRROR, "triton", "conformance/log-safety.test.ts"].map((name) => `test/${name}`),
    options: [],
  },
  golden: { paths: ["test/golden/mutants.test.ts", "test/golden/trtllm/golden.recorded.test.ts"], options: [] },
  leaving: { paths: ["test/conformance/lifecycle.test.ts"], options: [] },
  pack: { paths: ["test/pack.test.ts", "test/single-file.test.ts"], options: [] },
  release: { paths: ["test/scripts/release.test.ts"], options: [] },
  image: { paths: ["test/container"], options: [], tools: Object.keys(IMAGE_TOOLS), packages: IMAGE_TOOLS },
  workers: { paths: ["test/conformance/workers.test.ts"], options: [] },
  prometheus: { paths: ["test/prometheus"], options: [] },
  kubernetes: { paths: ["test/kubernetes"], options: [], tools: ["go"] },
  schedules: { paths: ["test/schedules"], options: ["seeds", "from", "failures"] },
  site: { paths: ["test/site", "test/docs/docs.test.ts"], options: [], tools: ["chromium"] },
  managers: { paths: ["test/managers"], options: [] },
};
