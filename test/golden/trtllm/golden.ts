/**
 * `bun run golden:trtllm -- [--mutate SEED] [--only LIST] [DIR or FILE ...]`: do we decide as TensorRT-LLM's schedulers did in these
 * recordings? Ends with `N passed, N failed`.
 */
import { join } from "node:path";
import { play } from "../play.ts";
import { trtRecordingsAt } from "./places.ts";

process.exitCode = play({
  command: "golden:trtllm",
  core: "trtllm.wasm",
  own: [join(import.meta.dir, "recordings")],
  kinds: "*.jsonl, *.json of project tests, also .gz",
  recordingsAt: trtRecordingsAt,
});
