/**
 * Runs `bun run golden trtllm [--mutate SEED] [--only LIST] [DIR or FILE ...]`: compares our decisions with recordings of
 * TensorRT-LLM's schedulers. The last line is `N passed, N failed`.
 */
import { join } from "node:path";
import { play } from "../play.ts";
import { trtRecordingsAt } from "./places.ts";

process.exitCode = play({
  command: "golden trtllm",
  core: "trtllm.wasm",
  defaults: [join(import.meta.dir, "recordings")],
  kinds: "*.jsonl, *.json of project tests, also .gz",
  recordingsAt: trtRecordingsAt,
});
