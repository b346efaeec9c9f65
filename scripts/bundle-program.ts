/**
 * Makes the bundle that a checkout starts (`fresh-program.ts`). Each bundle is made in a separate folder and comes into use
 * when its manifest replaces the last manifest. So no process reads an incomplete bundle, even if several processes make
 * bundles at once.
 */
import { cpSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { BUILT, program } from "./bundles.ts";
import { MANIFEST, type Manifest, root, stateOf } from "./fresh-program.ts";

/** Number of bundles that are kept, because running servers may load files of an older bundle later. */
const KEPT = 6;

function filesUnder(folder: string): string[] {
  return readdirSync(root + folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesUnder(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`],
  );
}

function statesOf(paths: readonly string[]): Record<string, string> {
  const states = paths.map((path) => [path, stateOf(path)] as const);
  return Object.fromEntries(states.filter((state): state is [string, string] => state[1] !== undefined));
}

// Record the states of sources before reading them. A source that changes during the build then makes the bundle out of date.
const sources = statesOf([
  ...filesUnder("src"),
  ...filesUnder("assembly"),
  ...["package.json", "bun.lock", "scripts/bundles.ts"],
  ...BUILT.map((name) => `build/${name}`),
]);
const programs = `${root}build/programs`;
mkdirSync(programs, { recursive: true });
const folder = `${programs}/${Date.now()}-${process.pid}`;
mkdirSync(folder);
try {
  for (const name of BUILT) cpSync(`${root}build/${name}`, `${folder}/build/${name}`);
  await program({ main: "src/main.ts" }, `${folder}/server`);
  const made = relative(root, folder);

  const files = { ...sources, ...statesOf(filesUnder(made)) };
  const manifest = `${folder}/program.json`;
  writeFileSync(manifest, JSON.stringify({ main: `${made}/server/main.js`, files } satisfies Manifest));
  renameSync(manifest, MANIFEST);
} catch (error) {
  rmSync(folder, { recursive: true, force: true });
  throw error;
}

const old = readdirSync(programs)
  .map((name) => ({ name, madeMs: statSync(`${programs}/${name}`).mtimeMs }))
  .toSorted((a, b) => b.madeMs - a.madeMs)
  .slice(KEPT);
for (const { name } of old) rmSync(`${programs}/${name}`, { recursive: true, force: true });
