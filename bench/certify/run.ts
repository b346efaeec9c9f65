/**
 * Measures how true the numbers of load generators are. Each tool runs each scenario against a new server, whose truth log has
 * the real times of every request. docs/explanation/measuring.md explains the tables. The server runs on one core, the tool on the other.
 *
 *   bun run bench certify [--tools "aiperf,vllm bench serve"] [--scenarios "plain,200 streams"] [--write-docs] [--no-save]
 *                         [--realtime]
 */
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { WallClock } from "../../src/base/clock.ts";
import { ServerTruthSource } from "../../src/tools/load/truth.ts";
import { has, options, progress, root, save, table } from "../lib/bench.ts";
import { CHAT_PATH, chat, post } from "../lib/client.ts";
import { CLIENT_CORE, pinned, serve, start } from "../lib/servers.ts";
import { compare, truthOf } from "./compare.ts";
import { errorRows, meaningRows, type ToolRun } from "./page.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { type Tool, tools } from "./tools.ts";

const names = { tools: "", scenarios: "", "write-docs": false };
const asked = options(names, ["--realtime"]);
const { "write-docs": writesDocs } = asked;

/** Bound on a run. A run takes seconds, most of them for the tool's own start. */
const TIMEOUT_MS = 90_000;
const WARM_UP = { requests: 8, tokens: 32 };

const chosenTools = chosen("tools", tools);
const chosenScenarios = chosen("scenarios", scenarios);
for (const { name, needs } of chosenTools)
  if (needs && !existsSync(root + needs.file))
    complain(`${name} needs ${needs.file}; make it with: ${needs.make}\n(--tools runs only those that you name)`);
const isWhole = chosenTools === tools && chosenScenarios === scenarios;
if (writesDocs && (!isWhole || has("--no-save")))
  complain("--write-docs needs the result of a whole run: leave out --tools, --scenarios and --no-save");

function chosen<T extends { readonly name: string }>(option: "tools" | "scenarios", all: readonly T[]): readonly T[] {
  if (asked[option] === "") return all;
  const names = asked[option].split(",");
  const known = all.map(({ name }) => name);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) complain(`--${option}: unknown: ${unknown.join(", ")}; accepted are ${known.join(", ")}`);
  return all.filter(({ name }) => names.includes(name));
}

function complain(why: string): never {
  console.error(why);
  process.exit(2);
}

async function serverOf(scenario: Scenario, stack: AsyncDisposableStack) {
  const flags = ["--served-model-name", "m", "--disable-uvicorn-access-log", ...scenario.serve];
  const server = stack.use(await serve(flags));
  await warmUp(server.port);
  if (!scenario.earlyRole) return { truthPort: server.port, port: server.port };
  const words = [process.execPath, "bench/certify/early-role.ts", String(server.port)];
  const proxy = stack.use(await start(words));
  await warmUp(proxy.port);
  return { truthPort: server.port, port: proxy.port };
}

/** Sends some requests before the measurement, because the first requests of a process wait for its compiler. */
async function warmUp(port: number): Promise<void> {
  const body = { ...chat("Hello", WARM_UP.tokens), model: "m" };
  const ask = async () => {
    const answer = await post(port, CHAT_PATH, body);
    if (!answer.ok) throw new Error(`warm-up: HTTP ${answer.status}`);
    await answer.arrayBuffer();
  };
  await Promise.all(Array.from({ length: WARM_UP.requests }, ask));
}

async function certify(tool: Tool, scenario: Scenario): Promise<ToolRun> {
  await using stack = new AsyncDisposableStack();
  const folder = `build/bench/certify-${process.pid}`;
  mkdirSync(root + folder, { recursive: true });
  stack.defer(() => rmSync(root + folder, { recursive: true }));
  const clock = new WallClock();
  stack.defer(() => clock.close());
  const { truthPort, port } = await serverOf(scenario, stack);
  const options = { headers: {}, tls: { rejectUnauthorized: true } };
  const source = new ServerTruthSource(`http://127.0.0.1:${truthPort}`, options, clock);
  const refused = await source.begin();
  if (refused !== null) throw new Error(refused);
  await runTool(tool, scenario, `http://127.0.0.1:${port}`, folder);
  const observed = tool.read(root + folder);
  const comparison = compare(observed, truthOf(await source.end()), scenario.interval);
  if (comparison.requests === 0)
    throw new Error(`${tool.name}: the server knows none of the ${observed.length} request ids`);
  return { tool: tool.name, version: tool.version, scenario: scenario.name, ...comparison };
}

/**
 * Command prefix that starts a tool of many processes in a session of its own with the highest weight, for `--realtime` (needs
 * root). A real-time class would let each process of the tool hold the core for 100 ms while the others wait.
 */
const WEIGHTED = ["sh", "-c", 'echo -20 > /proc/self/autogroup; exec nice -n -20 "$@"', "sh"];

function onCore(tool: Tool, words: readonly string[]): string[] {
  if (!tool.manyProcesses) return pinned(CLIENT_CORE, words);
  return [...(has("--realtime") ? WEIGHTED : []), "taskset", "-c", String(CLIENT_CORE), ...words];
}

async function runTool(tool: Tool, scenario: Scenario, url: string, folder: string): Promise<void> {
  const child = Bun.spawn(onCore(tool, tool.command(scenario, url, folder)), {
    cwd: root,
    env: { ...process.env, ...tool.env },
    detached: true,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  // A negative id ends the tool and all processes that it started.
  const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), TIMEOUT_MS);
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  clearTimeout(timer);
  if (code === 0) return;
  const why = child.signalCode === null ? `exited with code ${code}` : `was killed after ${TIMEOUT_MS / 1000} s`;
  throw new Error(`${tool.name} ${why}, scenario ${scenario.name}:\n${out.slice(-1500)}${err.slice(-1500)}`);
}

const rows: ToolRun[] = [];
for (const scenario of chosenScenarios) {
  for (const tool of chosenTools) {
    progress(`${scenario.name}: ${tool.name}`);
    rows.push(await certify(tool, scenario));
  }
}
table("Tool minus truth, ms: p50 / p99", errorRows(rows));
table("ITL and TPOT by the tool's definition and by the truth, ms", meaningRows(rows));
// The page is generated from the last saved line, so a partial run is not saved.
if (isWhole) save("certify", { rows });
const write = [process.execPath, "scripts/docs.ts", "docs/explanation/measuring.md"];
if (writesDocs) Bun.spawnSync(write, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
