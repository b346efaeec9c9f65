/** The packages as users get them: tarballs, in a folder of their own, and programs run beside them as in a user's shell. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
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

/** Both tarballs, in a folder that goes with `using`. */
export async function packed() {
  const folder = mkdtempSync(join(tmpdir(), "understudy-packed-"));
  await done([process.execPath, "scripts/pack.ts", folder], root);
  const tarball = (name: RegExp) => join(folder, readdirSync(folder).find((file) => name.test(file))!);
  return {
    folder,
    server: tarball(/^llm-understudy-\d/),
    engine: tarball(/^llm-understudy-engine-/),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
