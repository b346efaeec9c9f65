// Compares numbers of sequences that run at once, with a thousand requests for each in simulated time: node virtual-time.js
import { createEngine, latencies } from "llm-understudy";

const SECONDS = 1e6;
const results = [];
for (const maxNumSeqs of [8, 16, 32, 64]) {
  const engine = await createEngine({ maxNumSeqs, timing: "llama-3.1-8b-bf16-h100-tp1-vllm", seed: 1 });
  const runs = Array.from({ length: 1000 }, (_, i) =>
    engine.submit({ at: i * 0.02 * SECONDS, promptTokens: 500 + (i % 7) * 100, maxTokens: 50 }),
  );
  engine.clock.drain();
  const { ttftUs, itlUs } = latencies(runs);
  const shown = (us) => `${(us / 1000).toFixed(1)} ms`;
  results.push({ maxNumSeqs, ttftUs, itlUs });
  console.log(`${maxNumSeqs} sequences: first token ${shown(ttftUs.p99)}, between tokens ${shown(itlUs.p99)} (p99)`);
  engine.close();
}
const chosen = results.find(({ ttftUs }) => ttftUs.p99 < SECONDS);
console.log(`${chosen.maxNumSeqs} are enough for a first token within a second`);
