/**
 * `npx bun run start`: builds what is missing, serves, and ends with whoever started it. npm passes a signal on to the shell
 * between it and us; the shell ends without passing it on, and what it ran goes on without an owner (npm 10, dash 0.5). So
 * the processes between us and the runner on top are looked at: when one of them has lost its parent, we end in order.
 */
import { existsSync, readFileSync } from "node:fs";
import { programEntry } from "./fresh-program.ts";

const LOOK_MS = 500;
/** What npm and `bun run` put into the environment of what they run: who has neither was started by a user. */
const UNDER_RUNNER = /(^|\0)npm_(command|lifecycle_event)=/;

function read(pid: number, file: "stat" | "environ"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return "";
  }
}

/** Null: it is gone, or there is no /proc. */
function parentOf(pid: number): number | null {
  const text = read(pid, "stat");
  // The name before it may hold spaces and parentheses.
  const [, parent] = /^ \S (\d+)/.exec(text.slice(text.lastIndexOf(")") + 1)) ?? [];
  return parent === undefined ? null : Number(parent);
}

/** From us to the runner on top, each with its parent. */
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
