// Runs the scheduler step by step in simulated time, without waiting, and prints what each step does.
// Run it with Node or Bun: node examples/engine.js
import { createEngine } from "llm-understudy";

const engine = await createEngine({ maxNumSeqs: 2, timing: "linear:base=10ms,prefill=0.05ms,decode=1ms" });

// Three requests with the same 64-token beginning, for two places.
const system = Array.from({ length: 64 }, (_, i) => 1000 + i);
const runs = ["A", "B", "C"].map((name, i) => ({
  name,
  run: engine.submit({ promptIds: [...system, 1, 2, 3 + i], maxTokens: 3 }),
}));

for (let step = engine.step(); step !== null; step = engine.step()) {
  const { running, waiting, kvUsage } = engine.snapshot();
  const blocks = Math.round(kvUsage * (engine.config.numGpuBlocks - 1));
  console.log(
    `${ms(step.endUs)}: ${step.tokens} tokens; ${running} running, ${waiting} waiting, ${blocks} KV blocks in use`,
  );
}

for (const { name, run } of runs) {
  const ttft = ms(run.firstTokenUs - run.arrivalUs);
  console.log(
    `${name}: first token after ${ttft}, ${run.cachedTokens} of ${run.promptTokens} prompt tokens cached, ${run.finish}`,
  );
}
engine.close();

function ms(us) {
  return `${(us / 1000).toFixed(2)} ms`;
}
