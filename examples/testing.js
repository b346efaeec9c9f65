/** Property-tests the metrics of a server: whatever requests come, its laws hold. Needs `fast-check` beside us. */
import fc from "fast-check";
import { createServer } from "llm-understudy";
import { checkScrapes, requestMixes, sendMix } from "llm-understudy/testing";

// Any server with OpenAI's completions and metrics of its own will do.
const server = await createServer({ timing: "none", maxNumSeqs: 4, numGpuBlocksOverride: 64, maxModelLen: 512 }).ready;
const scrape = async () => ({ text: await (await fetch(`${server.url}/metrics`)).text() });

let requests = 0;
await fc.assert(
  fc.asyncProperty(requestMixes({ maxRequests: 8 }), async (mix) => {
    const before = await scrape();
    await sendMix(server.url, mix);
    const { errors } = checkScrapes([before, await scrape(), await scrape()], { parameters: { maxNumSeqs: 4 } });
    if (errors.length > 0) throw new Error(JSON.stringify(errors[0].violations[0]));
    requests += mix.length;
  }),
  { numRuns: 20, seed: 1 },
);
console.log(`20 mixes, ${requests} requests: every law held`);

// The same laws on a page that lies.
const page = (await scrape()).text;
const stuck = page.replace(/(vllm:num_requests_running\{[^}]*\}) 0\.0/, "$1 3.0");
const { violated } = checkScrapes([{ text: stuck, rest: true }]);
for (const { id, means } of violated) console.log(`${id}: ${means}`);

await server.close();
