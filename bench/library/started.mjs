/** Starts a server several times in one process, and prints the milliseconds until the first answer of each. */
import { createServer } from "llm-understudy";

const times = [];
for (let i = 0; i <= Number(process.env.STARTS); i++) {
  const began = performance.now();
  const server = await createServer({ timing: "none" }).ready;
  await (await fetch(`${server.url}/v1/models`)).text();
  times.push(performance.now() - began);
  await server.close();
}
console.log(JSON.stringify(times));
process.exit(0);
