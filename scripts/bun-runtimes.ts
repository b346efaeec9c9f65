/**
 * Finds Bun's program for each platform for which compile.ts makes a single file. The programs of other platforms are npm
 * packages, which `npm pack` downloads into `build/runtimes`. A download must have the checksum in bun.lock.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { wholeSizeOf } from "./executable-size.ts";

const root = new URL("../", import.meta.url).pathname;

/** The version of Bun that package.json pins. */
export const BUN_VERSION: string = JSON.parse(readFileSync(`${root}package.json`, "utf8")).dependencies.bun;

interface Target {
  /** Name of the npm package with Bun's program for the platform. */
  readonly package: string;
  /** Name of the platform as Bun's bundler expects it. */
  readonly compile: Bun.Build.CompileTarget;
  /** Names of the platform and its processor, as in `process.platform` and `process.arch`. */
  readonly platform: NodeJS.Platform;
  readonly arch: NodeJS.Architecture;
  /** First bytes of a program of the platform, and the bytes at offset `machineAt` that name the processor. */
  readonly magic: readonly number[];
  readonly machine: readonly number[];
  readonly machineAt: number;
}

const ELF = { platform: "linux", magic: [0x7f, 0x45, 0x4c, 0x46], machineAt: 18 } as const;
const MACH_O = { platform: "darwin", magic: [0xcf, 0xfa, 0xed, 0xfe], machineAt: 4 } as const;

export const TARGETS: Readonly<Record<string, Target>> = {
  "linux-x64": { ...ELF, package: "@oven/bun-linux-x64", compile: "bun-linux-x64", arch: "x64", machine: [0x3e, 0] },
  "linux-arm64": {
    ...{ ...ELF, package: "@oven/bun-linux-aarch64", compile: "bun-linux-arm64" },
    ...{ arch: "arm64", machine: [0xb7, 0] },
  },
  "darwin-arm64": {
    ...{ ...MACH_O, package: "@oven/bun-darwin-aarch64", compile: "bun-darwin-arm64" },
    ...{ arch: "arm64", machine: [0x0c, 0, 0, 0x01] },
  },
};

/** An error that the user can correct. The message is one line. */
export class CompileError extends Error {}

/**
 * Returns the path of Bun's program for a platform: for this platform the running one, for others the packaged one. Throws a
 * `CompileError`.
 */
export async function runtimeOf(name: string): Promise<string> {
  const target = TARGETS[name]!;
  const isOwn = target.platform === process.platform && target.arch === process.arch;
  return isOwn && !isForMusl(headOf(process.execPath)) ? process.execPath : packagedRuntime(name);
}

/**
 * Returns the path of the program in the npm package for a platform, the same on every machine. Downloads the package if it is
 * missing. Throws a `CompileError`.
 */
export async function packagedRuntime(name: string): Promise<string> {
  const target = TARGETS[name]!;
  const installed = `${root}node_modules/${target.package}/bin/bun`;
  if (existsSync(installed)) return installed;
  const folder = `${root}build/runtimes/${target.package.split("/")[1]}-${BUN_VERSION}`;
  const path = `${folder}/package/bin/bun`;
  if (!existsSync(path)) await download(name, target.package, folder);
  return path;
}

/** Throws a `CompileError` unless the file is a complete program of Bun, of the pinned version, for the platform. */
export function checkRuntime(name: string, path: string): void {
  const { magic, machine, machineAt } = TARGETS[name]!;
  const head = headOf(path);
  const has = (bytes: readonly number[], at: number) => bytes.every((byte, index) => head[at + index] === byte);
  if (!has(magic, 0) || !has(machine, machineAt) || isForMusl(head))
    throw new CompileError(`${path} is not a program for ${name}`);
  checkWhole(path);
  if (!readFileSync(path).includes(`Bun/${BUN_VERSION}`))
    throw new CompileError(`${path} is not Bun ${BUN_VERSION}, which package.json names`);
}

/** Throws a `CompileError` if a program is shorter than its header says. */
export function checkWhole(path: string): void {
  const [size, whole] = [statSync(path).size, wholeSizeOf(readFileSync(path))];
  if (size < whole) throw new CompileError(`${path} is truncated: it has ${size} bytes, and its header names ${whole}`);
}

/** True if the program names the dynamic linker of musl. All targets are for glibc. */
const isForMusl = (head: Buffer): boolean => head.includes("/ld-musl-");

/** Returns the first bytes of a file. In this part, a program of Linux names its dynamic linker. */
function headOf(path: string): Buffer {
  const head = Buffer.alloc(4096);
  try {
    const file = openSync(path, "r");
    readSync(file, head, 0, head.length, 0);
    closeSync(file);
  } catch (error) {
    throw new CompileError(`${path} cannot be read (${(error as { code?: string }).code})`);
  }
  return head;
}

/** Returns the checksum of a package from bun.lock, in the form `sha512-…`. */
function lockedChecksum(name: string): string {
  const lines = readFileSync(`${root}bun.lock`, "utf8").split("\n");
  const line = lines.find((text) => text.trimStart().startsWith(`"${name}": ["${name}@${BUN_VERSION}"`));
  const [, checksum] = /"(sha512-[^"]+)"\],?$/.exec(line ?? "") ?? [];
  if (checksum === undefined) throw new CompileError(`bun.lock has no checksum of ${name} ${BUN_VERSION}`);
  return checksum;
}

async function download(target: string, name: string, folder: string): Promise<void> {
  const checksum = lockedChecksum(name);
  const partial = `${folder}-${process.pid}`;
  mkdirSync(partial, { recursive: true });
  try {
    const packed = await run([
      "npm",
      "pack",
      "--loglevel=error",
      "--pack-destination",
      partial,
      `${name}@${BUN_VERSION}`,
    ]);
    const help = `give Bun ${BUN_VERSION} for ${target} with --runtime FILE`;
    if (packed.code !== 0)
      throw new CompileError(
        `${target} needs the npm package ${name}@${BUN_VERSION}, and npm cannot download it (${packed.why}); ${help}`,
      );
    const tarball = `${partial}/${packed.out.trim().split("\n").at(-1)}`;
    const found = `sha512-${createHash("sha512").update(readFileSync(tarball)).digest("base64")}`;
    if (found !== checksum) throw new CompileError(`${name}@${BUN_VERSION} has not the checksum in bun.lock; ${help}`);
    const unpacked = await run(["tar", "-xzf", tarball, "-C", partial]);
    if (unpacked.code !== 0) throw new CompileError(`${tarball} cannot be unpacked (${unpacked.why})`);
    rmSync(tarball);
    rmSync(folder, { recursive: true, force: true });
    renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

/** Runs a program. `why` of the result: the first line of its errors, or the reason why it could not start. */
async function run(command: readonly string[]) {
  try {
    const child = Bun.spawn([...command], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    const code = await child.exited;
    return { code, out, why: err.trim().split("\n")[0] || `exit code ${code}` };
  } catch (error) {
    return { code: -1, out: "", why: (error as Error).message };
  }
}
