/**
 * Finds out how this program was obtained: from a checkout, as a single file or as a package. The paths of a checkout's bundle
 * (`build/programs/NAME/`) have other depths than those of the sources, so the checkout is searched for above this file.
 */
import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { shellWord } from "./shell-word.ts";

/** A file of every checkout that no package contains. */
export const DRIVERS = "test/clients/drivers/drivers.json";
/** Most folders above this file that are searched. */
const LEVELS_MOST = 6;

/**
 * Returns the folder of the checkout that holds this file or its bundle, with a slash at the end. Returns null for the
 * published package and for a single file.
 */
export function checkout(): string | null {
  if (Bun.isStandaloneExecutable) return null;
  let folder = dirname(Bun.fileURLToPath(import.meta.url));
  for (let level = 0; level <= LEVELS_MOST; level++) {
    if (existsSync(join(folder, DRIVERS))) return join(folder, "/");
    folder = dirname(folder);
  }
  return null;
}

/** Returns the command that starts this program from the current folder, as the first words of a line to copy into a shell. */
export function ownCommand(): string {
  if (Bun.isStandaloneExecutable) return pathOf(process.execPath);
  const root = checkout();
  if (root !== null) return pathOf(`${root}bin/understudy`);
  // npx, npm and pnpm add the project's programs to the path of what they start. The user's shell does not have them.
  const shellPath = (process.env.PATH ?? "").split(":").filter((folder) => !folder.endsWith("node_modules/.bin"));
  return Bun.which("understudy", { PATH: shellPath.join(":") }) === null ? "npx understudy" : "understudy";
}

/** A path below the current folder is shorter when it is relative. Without a slash, a shell would search `PATH`. */
function pathOf(program: string): string {
  let path = "..";
  try {
    path = relative(process.cwd(), program);
  } catch {} // The current folder was deleted.
  return shellWord(path.startsWith("..") ? program : `./${path}`);
}
