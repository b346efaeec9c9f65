/**
 * Packs both published packages: `npx bun run packages [-- FOLDER]` writes their tarballs into FOLDER, default `build`, and
 * prints the paths. `npm pack` of the checkout itself is refused, because it would pack sources without their libraries.
 */
import { mkdirSync, readdirSync } from "node:fs";
import { resolve } from "node:path";

const root = new URL("../", import.meta.url).pathname;
const [folder = "build"] = process.argv.slice(2);
if (folder === "--not-here") {
  console.error("the packages are made by: npx bun run packages");
  process.exit(1);
}
const to = resolve(folder);
mkdirSync(to, { recursive: true });

async function run(command: readonly string[], cwd: string): Promise<string> {
  const child = Bun.spawn([...command], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  const said = await child.stdout.text();
  if ((await child.exited) !== 0) process.exit(1);
  return said;
}

await run([process.execPath, "scripts/build.ts", "--library"], root);
for (const name of readdirSync(`${root}build/npm`)) {
  const said = await run(["npm", "pack", "--silent", "--pack-destination", to], `${root}build/npm/${name}`);
  console.log(`${to}/${said.trim().split("\n").at(-1)}`);
}
