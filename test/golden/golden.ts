/** `bun run golden -- [--mutate SEED] [--only LIST] [DIR or FILE ...]`: are we decision-identical to these recordings? Ends with `N passed, N failed`. */
import { join } from "node:path";
import { recordingsAt } from "./places.ts";
import { play } from "./play.ts";

process.exitCode = play({
  command: "golden",
  core: "core.wasm",
  own: ["vllm-0.33", "random", "recorded"].map((folder) => join(import.meta.dir, folder)),
  kinds: "*.jsonl, *.json with scenarios, also .gz",
  recordingsAt,
});
