// Checks the metrics of an exporter during and after random loads: node exporter.js [URL of its server, runs]
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { createServer } from "llm-understudy";
import { checkScrapes, equal, law, requestMixes, sendMix, term } from "llm-understudy/testing";
import { startGateway } from "./gateway.js";

const [given, runs = 20] = process.argv.slice(2);
const url = given ?? (await startGateway((await createServer({ timing: "none" }).ready).url)).url;
const whole = law({
  id: "APP1",
  sentence: "what was sent is open, finished or left",
  means: "A request was lost.",
  check({ now }) {
    const value = (name) => now.get(`app_${name}`).value;
    const sum = value("requests_open") + value("finished_total") + value("left_total");
    return equal(now.get("app_requests_total"), term("open + finished + left", sum));
  },
});
const scrape = async (rest) => ({ text: await (await fetch(`${url}/metrics`)).text(), rest });
const property = fc.asyncProperty(requestMixes({ maxRequests: 8, maxOutputTokens: 8 }), async (mix) => {
  const before = await scrape(true);
  const [during] = await Promise.all([pause(5).then(() => scrape(false)), sendMix(url, mix)]);
  await pause(5); // the server has seen by then who left
  const [broken] = checkScrapes([before, during, await scrape(true)], { laws: [whole] }).errors;
  if (broken) throw new Error(`${broken.id}: ${broken.means} ${JSON.stringify(broken.violations[0])}`);
});
await fc.assert(property, { numRuns: Number(runs), seed: 1 });
console.log("every law held");
process.exit(0);
