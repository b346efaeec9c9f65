/**
 * Runs a benchmark after a build: `npx bun run bench NAME [options]`. The header of each benchmark's file states its options.
 * Without a known NAME, prints the names of all benchmarks.
 */
import { readdirSync } from "node:fs";
import { root } from "./test-lanes.ts";

/** Paths of the benchmark programs that are not directly in `bench/`, by name. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  certify: "bench/certify/run.ts",
  scale: "bench/micro/scale.ts",
  step: "bench/micro/step.ts",
  stream: "bench/stream/run.ts",
  writes: "bench/micro/writes.ts",
};
/** Benchmarks of the packed program and the single file, which only a build of the library and scripts/compile.ts make. */
const PACKED = ["start"];

/** Paths of all benchmark programs, by name. */
export const BENCHES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    readdirSync(`${root}bench`)
      .filter((file) => file.endsWith(".ts"))
      .map((file) => [file.slice(0, -".ts".length), `bench/${file}`]),
  ),
  ...ELSEWHERE,
};

if (import.meta.main) {
  const [name = "", ...words] = process.argv.slice(2);
  const path = BENCHES[name];
  if (path === undefined) {
    console.error(`bench ${name}: the name must be one of ${Object.keys(BENCHES).sort().join(", ")}`);
    process.exit(2);
  }
  const run = (...command: string[]) =>
    Bun.spawnSync([process.execPath, ...command], { cwd: root, stdio: ["inherit", "inherit", "inherit"] }).exitCode;
  const isPacked = PACKED.includes(name);
  const built = run("scripts/build.ts", ...(isPacked ? ["--library"] : [])) || (isPacked && run("scripts/compile.ts"));
  process.exit(built || run(path, ...words.filter((word) => word !== "--")));
}
