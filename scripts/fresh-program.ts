/**
 * Finds the bundle of a checkout's program. The bundle starts in less than half the time of the sources.
 *
 * A bundle is used only if every source, and every file of the bundle that a start reads, is as it was when the bundle was
 * made. That is 1,100 looks at the disk, which take Bun 3 ms, and Node 20 ms. `bundle-program.ts` makes the bundle.
 */
import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";

export const root = new URL("../", import.meta.url).pathname;
/** Names the bundle in use and the files behind it. Replaced as a whole when another bundle is ready. */
export const MANIFEST = `${root}build/program.json`;
const SOURCE = `${root}src/main.ts`;

export interface Manifest {
  /** Path of the entry, from the root. */
  readonly main: string;
  /** State of each file by its path from the root. */
  readonly files: Readonly<Record<string, string>>;
}

/** Returns what tells one state of a file or folder from another, or undefined if it does not exist. */
export function stateOf(path: string): string | undefined {
  const stat = statSync(root + path, { throwIfNoEntry: false });
  return stat && `${stat.size} ${Math.trunc(stat.mtimeMs)}`;
}

/** Returns the path of an up-to-date bundle's entry, or null. */
function freshProgram(): string | null {
  try {
    const { main, files }: Manifest = JSON.parse(readFileSync(MANIFEST, "utf8"));
    if (files[main] === undefined) return null;
    for (const path in files) if (stateOf(path) !== files[path]) return null;
    return root + main;
  } catch {
    return null;
  }
}

function canBundle(): boolean {
  try {
    accessSync(`${root}build`, constants.W_OK);
    return existsSync(`${root}build/core.wasm`);
  } catch {
    return false;
  }
}

/**
 * Returns the entry of an up-to-date bundle, which is made if necessary. Returns the entry of the sources if no bundle can be
 * made: the build is missing, the checkout cannot be written to, or a source is broken.
 */
export function programEntry(): string {
  const fresh = freshProgram();
  if (fresh !== null) return fresh;
  if (!canBundle()) return SOURCE;
  Bun.spawnSync([process.execPath, `${root}scripts/bundle-program.ts`], { stdio: ["ignore", "ignore", "ignore"] });
  return freshProgram() ?? SOURCE;
}
