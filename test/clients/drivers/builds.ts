/** Builds the drivers of clients in other languages. If a toolchain is missing, its clients are listed and not counted. */
import { findToolchain, missingLine, TOOLCHAINS, type ToolchainName } from "../toolchains.ts";

interface DriverBuild {
  readonly clients: readonly string[];
  readonly toolchain: ToolchainName;
  /** Arguments of the toolchain's program, run in the folder. */
  readonly words: readonly string[];
  readonly folder: string;
}

const BUILDS: readonly DriverBuild[] = [
  {
    clients: ["openai-go", "go-openai"],
    toolchain: "go",
    words: ["build", "-o", "../../../../build/clients/drivers", "."],
    folder: "go",
  },
  {
    clients: ["async-openai", "reqwest-eventsource"],
    toolchain: "rust",
    // An optimized build, as users have it, because the test looks for work that grows too fast.
    words: ["build", "--release", "--quiet", "--locked", "--target-dir", "../../../../build/clients/drivers-rust"],
    folder: "rust",
  },
];

/** Builds the drivers of the wanted clients. Throws if a toolchain exists and its drivers do not build. */
export function buildDrivers(wanted: (client: string) => boolean): void {
  for (const { clients, toolchain, words, folder } of BUILDS) {
    if (!clients.some(wanted)) continue;
    const program = findToolchain(TOOLCHAINS[toolchain]);
    if (program === null) {
      console.log(missingLine(TOOLCHAINS[toolchain], clients));
      continue;
    }
    const cwd = new URL(folder, import.meta.url).pathname;
    const { exitCode } = Bun.spawnSync([program, ...words], { cwd, stdout: "inherit", stderr: "inherit" });
    if (exitCode !== 0) throw new Error(`${clients.join(", ")}: the driver does not build`);
  }
}
