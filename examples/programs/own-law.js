// Checks metrics by a law of our own, that no answer has more than a number of tokens: node own-law.js
import { createServer } from "llm-understudy";
import { atMost, checkScrapes, law, term } from "llm-understudy/testing";

const ALLOWED = 100;
const billed = law({
  id: "BILL1",
  sentence: `at most ${ALLOWED} tokens per answer`,
  means: "Somebody pays for more than was agreed.",
  check: (c) => {
    const answers = c.delta("vllm:request_success_total").value;
    return atMost(c.delta("vllm:generation_tokens_total"), term(`${ALLOWED} · answers`, ALLOWED * answers));
  },
});

const server = await createServer({ timing: "none" }).ready;
for (const maxTokens of [20, 200]) {
  const before = (await server.metrics()).text;
  const body = JSON.stringify({ prompt: "Tell me", max_tokens: maxTokens, ignore_eos: true });
  const headers = { "content-type": "application/json" };
  await (await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body })).text();
  const { errors } = checkScrapes([before, (await server.metrics()).text], { laws: [billed] });
  console.log(`${maxTokens} tokens:`, errors.length === 0 ? "as agreed" : `${errors[0].id}: ${errors[0].means}`);
}
await server.close();
