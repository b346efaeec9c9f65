/** Makes the single file of this platform and runs it, for the tests of single-file.test.ts. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { done, PLAIN, run } from "./packed.ts";
import { SEPARATE } from "./program.ts";
import { type StartedProgram, startProgram } from "./started-program.ts";

const root = new URL("../", import.meta.url).pathname;
export const TARGET = "linux-x64";

export interface SingleFile {
  readonly path: string;
  /** An empty folder, which `remove` deletes. */
  readonly folder: string;
  remove(): void;
}

/** Runs scripts/compile.ts with these words until it exits. */
export const compile = (...words: string[]) => run([process.execPath, "scripts/compile.ts", ...words], root);

export async function singleFile(): Promise<SingleFile> {
  await done([process.execPath, "scripts/build.ts"], root);
  const folder = mkdtempSync(join(tmpdir(), "understudy-file-"));
  const out = join(folder, "bin");
  await done([process.execPath, "scripts/compile.ts", "--target", TARGET, "--out", out], root);
  return {
    path: `${out}/understudy-${TARGET}`,
    folder,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Text after the embedded modules, and the sizes of what is before it (Bun 1.4.5, StandaloneModuleGraph). */
const TRAILER = "\n---- Bun! ----\n";
const OFFSETS_BYTES = 32;
const MODULE_BYTES = 52;

/** Returns the contents of the modules and files that Bun embedded in a single file, by their names. */
export function embeddedIn(path: string): Map<string, Buffer> {
  const bytes = readFileSync(path);
  const offsets = bytes.lastIndexOf(TRAILER) - OFFSETS_BYTES;
  const first = offsets - Number(bytes.readBigUInt64LE(offsets));
  const part = (at: number) => {
    const start = first + bytes.readUInt32LE(at);
    return bytes.subarray(start, start + bytes.readUInt32LE(at + 4));
  };
  const table = first + bytes.readUInt32LE(offsets + 8);
  const count = bytes.readUInt32LE(offsets + 12) / MODULE_BYTES;
  const rows = Array.from({ length: count }, (_, index) => table + index * MODULE_BYTES);
  return new Map(rows.map((at) => [part(at).toString(), part(at + 8)] as const));
}

export interface StartedFile extends StartedProgram {
  readonly url: string;
}

export interface Place {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a server by this command. Resolves when it has printed its banner, and rejects if it exits before. */
export async function startServer(
  command: readonly string[],
  { cwd = tmpdir(), env = {} }: Place = {},
): Promise<StartedFile> {
  const banner = /^ {2}listening +(https?:\S+) .*\n/m;
  const server = await startProgram(command, (output) => banner.test(output), { cwd, env: { ...PLAIN, ...env } });
  return { ...server, url: banner.exec(server.output())![1]! };
}

/**
 * Tests that run with the file, and with the image, in place of the sources. They cover commands, recordings, one client of each
 * family, and everything that a server reads and listens to.
 */
export const SUITES = [
  ...["golden-api", "workers", "fixtures", "dataset", "truth", "tls"].map((name) => `test/conformance/${name}.test.ts`),
  ...["recorded", "shipped", "examples"].map((name) => `test/triton/${name}.test.ts`),
  ...["load/command", "check/cli", "replay/replay.sim", "proxy/proxy", "stress/stress"].map(
    (name) => `test/tools/${name}.test.ts`,
  ),
  ...["clients/matrix", "text/tokens/model-folder", "faults/http2", "cli/health/health", "cli/proxies"].map(
    (name) => `test/${name}.test.ts`,
  ),
  "test/engine/journal-after-crash.sim.test.ts",
];
/** Most milliseconds that a suite takes. */
export const SUITE_MS = 900_000;

/**
 * Runs a test file whose commands and servers are `program`. Returns the exit code and the names of failed tests. `within`: words
 * before the command of the test runner.
 */
export async function suiteWith(program: string, path: string, within: readonly string[] = []) {
  const env = { TEST_PROGRAM: `${root}test/file-program.ts`, TEST_FILE: program, TEST_HOST: SEPARATE };
  const words = [...within, process.execPath, "test", "--timeout", "60000", path];
  const { code, out, err } = await run(words, root, env, SUITE_MS);
  return { code, failed: `${out}${err}`.split("\n").filter((line) => line.startsWith("(fail)")) };
}
