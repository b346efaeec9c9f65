/** Which drivers are built, and with what? Where the toolchain is missing its clients are named and do not count. */
import { findToolchain, missingLine, TOOLCHAINS, type ToolchainName } from "../toolchains.ts";

interface DriverBuild {
  readonly clients: readonly string[];
  readonly toolchain: ToolchainName;
  /** Behind the toolchain's program, in the folder. */
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
    // As fast as users have it: work that grows too fast is looked at.
    words: ["build", "--release", "--quiet", "--locked", "--target-dir", "../../../../build/clients/drivers-rust"],
    folder: "rust",
  },
];

/** Throws where a toolchain is there and its drivers do not build. `wanted`: no others are built. */
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
