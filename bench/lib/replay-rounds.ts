/**
 * Runs the same replay several times in one process and prints the time of each as JSON. Arguments: the number of rounds, then
 * the arguments of `understudy replay`.
 */

import { parseFlags } from "../../src/cli/options/flags.ts";
import { optionInput } from "../../src/cli/options/given.ts";
import { lookup } from "../../src/cli/options/lookup.ts";
import { takeReplayOptions } from "../../src/cli/replay/replay-options.ts";
import { resolveFlags } from "../../src/cli/serve/resolve.ts";
import { coreName } from "../../src/engine/trtllm-setup.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { root } from "./bench.ts";
import { replayOf } from "./replay-of.ts";

const [times, ...argv] = process.argv.slice(2);
const own = takeReplayOptions(argv);
if ("error" in own) throw new Error(own.error);
const flags = parseFlags(own.rest);
if ("error" in flags) throw new Error(flags.error);
const [path = null] = flags.positional;
let module: WebAssembly.Module | undefined;

const seconds: number[] = [];
let totals = { requests: 0, outputTokens: 0, tokens: 0 };
for (let round = 0; round < Number(times); round++) {
  const trace = openTrace(path, own.values.format ?? null);
  const defaults = trace.format === "mooncake" ? [optionInput(lookup("block-size")!, ["512"], "bench")] : [];
  const resolved = resolveFlags({ ...flags, positional: [] }, {}, () => "", defaults);
  if ("error" in resolved) throw new Error(resolved.error);
  const { engine } = resolved.config;
  module ??= await WebAssembly.compile(await Bun.file(`${root}build/${coreName(engine)}.wasm`).arrayBuffer());
  const began = performance.now();
  const replay = replayOf(engine, module, trace);
  seconds.push((performance.now() - began) / 1000);
  trace.close();
  const { promptTokens, generationTokens } = replay.fleet.snapshots()[0]!;
  const outputTokens = generationTokens;
  totals = { requests: replay.counts.finished, outputTokens, tokens: promptTokens + outputTokens };
}
console.log(JSON.stringify({ rounds: seconds, ...totals }));
