/**
 * Shows how three servers answer a request of the oracle: `npx bun test/fronts/oracle/ask.ts --seed N [--cut NAME] [--reasoning
 * PARSER]`. Python's front end is asked if it is installed (`npx bun run test fronts`).
 */
import { isPythonHere } from "../python-front.ts";
import { MODEL } from "../vllm-rs.ts";
import { CUTS, cutsOf } from "./cuts.ts";
import { drawRequest } from "./draw.ts";
import { type ServerName, startServer } from "./three-servers.ts";

const options = new Map<string, string>();
for (let at = 2; at < process.argv.length; at += 2) options.set(process.argv[at]!, process.argv[at + 1] ?? "");
const [seed, cut, reasoning] = [
  Number(options.get("--seed") ?? 1),
  options.get("--cut") ?? "1",
  options.get("--reasoning"),
];
const parsers = { tools: "hermes", ...(reasoning === undefined ? {} : { reasoning }) };

const request = drawRequest(seed);
const script = cutsOf(request.tokens, seed)[CUTS.indexOf(cut as (typeof CUTS)[number])];
if (script === undefined) {
  console.error(`--cut ${cut}: takes ${CUTS.join(", ")}`);
  process.exit(2);
}
console.log(`${request.kind}, POST ${request.path} ${JSON.stringify(request.body)}`);
console.log(`steps ${JSON.stringify(script.sequences[0].steps)}`);
const names: readonly ServerName[] = isPythonHere() ? ["own", "vllm-rs", "python"] : ["own", "vllm-rs"];
for (const name of names) {
  const server = await startServer(name, MODEL, parsers);
  console.log(`${name}: ${JSON.stringify(await server.ask(request, script))}`);
  await server.stop();
}
process.exit(0);
