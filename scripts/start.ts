/**
 * Implements `npx bun run start`: builds missing files, starts a server, and ends when the process that started it ends. npm
 * passes a signal to the shell that runs this process. The shell ends without passing the signal on, and this process would
 * continue without a parent (npm 10, dash 0.5). So this process watches its ancestors up to npm or `bun run`, and shuts down
 * when one of them has lost its parent.
 */
import { existsSync, readFileSync } from "node:fs";
import { programEntry } from "./fresh-program.ts";

const LOOK_MS = 500;
/** Matches the environment variables that npm and `bun run` set. A process without these variables was started by a user. */
const UNDER_RUNNER = /(^|\0)npm_(command|lifecycle_event)=/;

function read(pid: number, file: "stat" | "environ"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return "";
  }
}

/** Returns the id of the parent process. Null if process `pid` has ended, or if the system has no /proc. */
function parentOf(pid: number): number | null {
  const text = read(pid, "stat");
  // The name of the program comes first and may contain spaces and parentheses.
  const [, parent] = /^ \S (\d+)/.exec(text.slice(text.lastIndexOf(")") + 1)) ?? [];
  return parent === undefined ? null : Number(parent);
}

/** Returns this process and its ancestors up to npm or `bun run`, each with the id of its parent. */
function chain(): (readonly [pid: number, parent: number])[] {
  const links: (readonly [number, number])[] = [];
  for (let pid = process.pid; UNDER_RUNNER.test(read(pid, "environ")); ) {
    const parent = parentOf(pid);
    if (parent === null) break;
    links.push([pid, parent]);
    pid = parent;
  }
  return links;
}

const links = chain();
const look = setInterval(() => {
  if (links.every(([pid, parent]) => parentOf(pid) === parent)) return;
  clearInterval(look);
  process.kill(process.pid, "SIGTERM");
}, LOOK_MS);
look.unref();

const root = new URL("../", import.meta.url).pathname;
if (!existsSync(`${root}build/core.wasm`)) console.error("first start: building, which takes from 15 s to a minute");
const build = Bun.spawn([process.execPath, `${root}scripts/build.ts`], { stdio: ["ignore", "inherit", "inherit"] });
if ((await build.exited) !== 0) process.exit(1);
process.argv.splice(2, 0, "serve");
await import(programEntry());
