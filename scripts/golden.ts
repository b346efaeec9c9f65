/**
 * Compares recordings of a real server with the behaviour of Understudy, after a build: `npx bun run golden [api|triton|trtllm]
 * [options]`. Without a name, the recordings are decisions of vLLM's scheduler.
 */
import { root } from "./test-lanes.ts";

const PROGRAMS: Readonly<Record<string, string>> = {
  api: "test/conformance/golden-api.ts",
  triton: "test/triton/golden-triton.ts",
  trtllm: "test/golden/trtllm/golden.ts",
};

const words = process.argv.slice(2).filter((word) => word !== "--");
const named = PROGRAMS[words[0] ?? ""];
const program = named === undefined ? ["test/golden/golden.ts", ...words] : [named, ...words.slice(1)];
for (const command of [["scripts/build.ts"], program]) {
  const { exitCode } = Bun.spawnSync([process.execPath, ...command], {
    stdio: ["inherit", "inherit", "inherit"],
    cwd: root,
  });
  if (exitCode !== 0) process.exit(exitCode);
}
