/** The packages as users get them: tarballs, in a folder of their own, and programs run beside them as in a user's shell. */
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("../", import.meta.url).pathname;

/** What npm and Bun set for their scripts would change what the inner ones do. */
export const PLAIN: Record<string, string | undefined> = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(npm_|bun_|NODE_ENV|NODE_PATH|INIT_CWD|UNDERSTUDY_|VLLM_|TEST_)/i.test(name),
  ),
);

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs to its end, `limitMs` at most. */
export async function run(
  command: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
  limitMs = 180_000,
): Promise<Ran> {
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

/** Like `run`; rejects with all that was said where it fails. */
export async function done(...args: Parameters<typeof run>): Promise<Ran> {
  const ran = await run(...args);
  if (ran.code !== 0) throw new Error(`${args[0].join(" ")}: exit code ${ran.code}\n${ran.out}${ran.err}`);
  return ran;
}

/** Tarballs of what is built: made once, for all test files that install them, also for those that run at the same time. */
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
    rmSync(made, { recursive: true }); // another one was faster
  }
  return to;
}

/** Both tarballs, and an empty folder. */
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
