/**
 * Measures how much time a test spends on its server. 200 tests in 8 files run in Node and in Bun with a server per test, and in
 * Node with a shared server that is reset. Tests with aimock, which npm installs into a temporary folder, run in turn with
 * them. The bench also measures later starts of a server in one process.
 *
 *   npx bun run bench library [--rounds 3] [--no-save]
 */
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bars, options, root, save, table } from "./lib/bench.ts";
import { median } from "./lib/numbers.ts";
import { inTurns } from "./lib/servers.ts";

const { rounds } = options({ rounds: 3 });
const BARS = { each: 2, shared: 3, second: 1.5 };
const AIMOCK = "@copilotkit/aimock@1.43.0";
const FILES = 8;
const TESTS = 25;
/** Number of starts in one process after the first. */
const STARTS = 15;

const folder = mkdtempSync(join(tmpdir(), "understudy-library-bench-"));

async function run(command: readonly string[], cwd = folder): Promise<{ readonly out: string; readonly ms: number }> {
  const began = performance.now();
  const env = { ...process.env, TESTS: String(TESTS), STARTS: String(STARTS) };
  const child = Bun.spawn([...command], { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}\n${out}${err}`);
  return { out, ms: performance.now() - began };
}

/** Files of bench/library/, and the runtime that runs copies of each: Bun if `bun` is true, else Node. */
const SETUPS = {
  eachNode: { name: "ours, a server each, Node", file: "each", bun: false },
  eachBun: { name: "ours, a server each, Bun", file: "each", bun: true },
  sharedNode: { name: "ours, shared and reset, Node", file: "shared", bun: false },
  aimockEach: { name: "aimock, a server each, Node", file: "aimock-each", bun: false },
  aimockShared: { name: "aimock, shared and reset, Node", file: "aimock-shared", bun: false },
} as const;
type SetupName = keyof typeof SETUPS;

/** Copies the files of a setup, and returns the command that runs them. */
function written(setup: SetupName): string[] {
  const { file, bun } = SETUPS[setup];
  const to = join(folder, setup);
  const files = Array.from({ length: FILES }, (_, at) => join(to, `file${at}.test.mjs`));
  for (const copy of files) cpSync(`${root}bench/library/${file}.mjs`, copy);
  return bun ? [process.execPath, "test", to] : ["node", "--test", ...files];
}

const mapped = <T>(make: (name: SetupName) => T) =>
  Object.fromEntries((Object.keys(SETUPS) as SetupName[]).map((name) => [name, make(name)])) as Record<SetupName, T>;

async function measured() {
  await run([process.execPath, "scripts/build.ts", "--library"], root);
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  await run(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", AIMOCK]);
  symlinkSync(`${root}build/npm/llm-understudy`, join(folder, "node_modules/llm-understudy"));
  for (const file of ["ask.mjs", "started.mjs"]) cpSync(`${root}bench/library/${file}`, join(folder, file));
  const commands = mapped(written);
  const seconds = await inTurns(
    "library",
    rounds,
    mapped((name) => async () => (await run(commands[name])).ms / 1000),
  );
  const started = (program: string) => async () => JSON.parse((await run([program, "started.mjs"])).out) as number[];
  const starts = await inTurns("library", rounds, { node: started("node"), bun: started(process.execPath) });
  return { seconds, starts };
}

const { seconds, starts } = await measured().finally(() => rmSync(folder, { recursive: true, force: true }));
const s = mapped((name) => median(seconds[name]));
const mediansOf = (timesOf: (runs: readonly number[][]) => number[]) => ({
  ...{ node: median(timesOf(starts.node)), bun: median(timesOf(starts.bun)) },
});
const firstMs = mediansOf((runs) => runs.map(([first]) => first!));
const laterMs = mediansOf((runs) => runs.flatMap(([, ...later]) => later));
const [each, shared, second] = [s.eachNode / s.eachBun, s.sharedNode / s.aimockShared, laterMs.node / laterMs.bun];
const ratios = { each, shared, second };
table(`${FILES * TESTS} tests in ${FILES} files, s, ${rounds} rounds`, [
  ["", "median", "shortest", "longest"],
  ...Object.values(
    mapped((name) => [SETUPS[name].name, s[name], Math.min(...seconds[name]), Math.max(...seconds[name])]),
  ),
]);
table("From createServer to the first answer, ms", [
  ["", "first", "later"],
  ["Node", firstMs.node, laterMs.node],
  ["Bun", firstMs.bun, laterMs.bun],
]);
bars(
  ["a server per test, Node ÷ Bun", ratios.each, BARS.each, "times"],
  ["shared and reset ÷ aimock", ratios.shared, BARS.shared, "times"],
  ["later starts, Node ÷ Bun", ratios.second, BARS.second, "times"],
);
const shape = { rounds, tests: FILES * TESTS, files: FILES, against: AIMOCK };
save("library", { ...shape, seconds: s, ratios, firstMs, laterMs });
