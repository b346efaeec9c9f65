/** Runs the Python programs of these tests, in an environment with pyzmq and msgspec, next to modules of vLLM's wheel. */
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";

const root = new URL("../../", import.meta.url).pathname;
/** Folder that the repository ignores. */
const folder = `${root}build/kv-events/`;
const python = `${folder}venv/bin/python`;
const WHEEL = "vllm==0.33.0";
const PACKAGES = ["pyzmq==27.3.0", "msgspec==0.22.0", "cbor2==6.3.0", "xxhash==4.1.0"];
const MODULES = ["vllm/utils/hashing.py", "vllm/v1/core/kv_cache_utils.py", "vllm/distributed/kv_events.py"];
const EXTRACT = `import sys, zipfile
for name in sys.argv[2:]: zipfile.ZipFile(sys.argv[1]).extract(name, ".")`;

export const hasPython = (): boolean => existsSync(`${folder}${MODULES[2]}`) && existsSync(python);

/** Installs the packages, and takes the modules out of the wheel, which has 336 MB. Rejects if pip or the wheel is missing. */
export async function fetchPython(): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const run = async (...command: readonly string[]) => {
    const child = Bun.spawn([...command], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${await new Response(child.stderr).text()}`);
  };
  await run("python3", "-m", "venv", "venv");
  await run(python, "-m", "pip", "install", "--quiet", ...PACKAGES);
  await run("python3", "-m", "pip", "download", WHEEL, "--no-deps", "--only-binary=:all:", "--dest", ".");
  const wheel = readdirSync(folder).find((name) => name.endsWith(".whl"))!;
  await run("python3", "-c", EXTRACT, wheel, ...MODULES);
  rmSync(folder + wheel);
}

/** A Python program that answers lines of JSON. */
export class PythonProgram {
  readonly #child: Bun.Subprocess<"pipe", "pipe", "inherit">;
  readonly #lines: AsyncGenerator<string>;

  constructor(name: string) {
    this.#child = Bun.spawn([python, `${import.meta.dir}/${name}`, folder], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#lines = linesOf(this.#child.stdout);
  }

  /** Sends an order. Resolves to its answer. Orders must not overlap. */
  async ask<T>(order: string, values: object): Promise<T> {
    this.#child.stdin.write(`${JSON.stringify({ order, ...values })}\n`);
    this.#child.stdin.flush();
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`the Python program ended at the order ${order}`);
    return JSON.parse(value) as T;
  }

  async stop(): Promise<void> {
    this.#child.stdin.end();
    await this.#child.exited;
  }
}

export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  for await (const chunk of stream) {
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    for (const piece of pieces.slice(0, -1)) {
      parts.push(piece);
      yield parts.splice(0).join("");
    }
    parts.push(pieces.at(-1)!);
  }
}
