/** Builds the package tarballs and runs programs with them, as a user would in a separate folder. */
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("../", import.meta.url).pathname;

/** The environment without the variables of npm and Bun for scripts, because they would change the programs under test. */
export const PLAIN: Record<string, string | undefined> = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(npm_|bun_|NODE_ENV|NODE_PATH|INIT_CWD|UNDERSTUDY_|VLLM_|TEST_)/i.test(name),
  ),
);

export interface ProcessResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command until it exits. Kills it after `limitMs` milliseconds. */
export async function run(
  command: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
  limitMs = 180_000,
): Promise<ProcessResult> {
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...PLAIN, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: limitMs,
    killSignal: "SIGKILL",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

/** Like `run`, but rejects with the whole output if the exit code is not 0. */
export async function done(...args: Parameters<typeof run>): Promise<ProcessResult> {
  const result = await run(...args);
  if (result.code !== 0) throw new Error(`${args[0].join(" ")}: exit code ${result.code}\n${result.out}${result.err}`);
  return result;
}

/**
 * Returns the folder with the tarballs of the current build. They are packed once for all test files, also for files that run
 * at the same time.
 */
async function tarballs(): Promise<string> {
  await done([process.execPath, "scripts/build.ts", "--library"], root);
  const builtMs = (folder: string) => Math.trunc(statSync(`${root}build/npm/${folder}/package.json`).mtimeMs);
  const to = `${root}build/tarballs-${Math.max(...readdirSync(`${root}build/npm`).map(builtMs))}`;
  if (existsSync(to)) return to;
  for (const old of readdirSync(`${root}build`))
    if (old.startsWith("tarballs-")) rmSync(`${root}build/${old}`, { recursive: true, force: true });
  const made = mkdtempSync(`${root}build/packing-`);
  await done([process.execPath, "scripts/pack.ts", made], root);
  try {
    renameSync(made, to);
  } catch {
    rmSync(made, { recursive: true }); // another process was faster
  }
  return to;
}

/** Returns the paths of both tarballs and of a new empty folder. */
export async function packed() {
  const made = await tarballs();
  const folder = mkdtempSync(join(tmpdir(), "understudy-packed-"));
  const tarball = (name: RegExp) => join(made, readdirSync(made).find((file) => name.test(file))!);
  return {
    folder,
    server: tarball(/^llm-understudy-\d/),
    engine: tarball(/^llm-understudy-engine-/),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
