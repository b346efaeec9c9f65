/**
 * The API server of the Python package of vLLM 0.33.0, installed in a folder that the repository ignores. Its kernels are left
 * out, so that no GPU is needed. The label of the package's version makes it choose its platform for CPUs.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const root = new URL("../../", import.meta.url).pathname;
const folder = `${root}build/fronts/python/`;
const requirements = `${root}test/fronts/python-front.txt`;
/** Written last. It has the requirements that are installed. */
const stamp = `${folder}installed.txt`;

/** The command that starts the API server, without its options. */
export const PYTHON_FRONT = [`${folder}bin/vllm`, "serve"];

export const isPythonHere = (): boolean =>
  existsSync(stamp) && readFileSync(stamp, "utf8") === readFileSync(requirements, "utf8");

/** Installs the server: downloads of 3 GB, and 6 GB in the folder. Rejects if a package cannot be had. */
export async function installPython(): Promise<void> {
  mkdirSync(folder, { recursive: true });
  rmSync(stamp, { force: true });
  const run = async (...command: readonly string[]) => {
    const child = Bun.spawn([...command], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${await new Response(child.stderr).text()}`);
  };
  await run("python3", "-m", "venv", ".");
  await run("bin/pip", "install", "--no-deps", "--only-binary=:all:", "--requirement", requirements);
  for (const python of readdirSync(`${folder}lib`)) {
    const label = `${folder}lib/${python}/site-packages/vllm-0.33.0.dist-info/METADATA`;
    writeFileSync(label, readFileSync(label, "utf8").replace(/^Version: 0\.33\.0$/m, "Version: 0.33.0+cpu"));
  }
  writeFileSync(stamp, readFileSync(requirements));
}
