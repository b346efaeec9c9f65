/**
 * Runs `bun run golden -- [--mutate SEED] [--only LIST] [DIR or FILE ...]`: compares our decisions with recordings of vLLM's
 * scheduler. The last line is `N passed, N failed`.
 */
import { join } from "node:path";
import { recordingsAt } from "./places.ts";
import { play } from "./play.ts";

process.exitCode = play({
  command: "golden",
  core: "core.wasm",
  defaults: ["vllm-0.33", "random", "recorded"].map((folder) => join(import.meta.dir, folder)),
  kinds: "*.jsonl, *.json with scenarios, also .gz",
  recordingsAt,
});
