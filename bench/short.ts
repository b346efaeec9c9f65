/**
 * Measures the CPU time of a short answer that is not streamed. A bare `Bun.serve` that parses the same body and answers the
 * same JSON is measured in turn, and the median of the turns counts. Turns are short, so that no server idles for a second.
 * After a second the allocator returns memory to the system, and page faults would disturb the next turn.
 *
 *   bun run bench short [--rounds 96] [--requests 1000] [--base REV [--pairs 5]] [--realtime] [--no-save]
 */
import { rmSync } from "node:fs";
import { BASE_FLAGS, compareWithBase } from "./lib/base.ts";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { finelyOf, type RunningServer, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--requests", "--realtime", "--no-save", ...BASE_FLAGS]);
await compareWithBase({
  name: "short",
  script: "bench/short.ts",
  costs: (line: { readonly times: number; readonly logging: number }) => ({
    "CPU, times the bare server": line.times,
    "with its access log": line.logging,
  }),
});

const BAR = 2;
const CONNECTIONS = 8;
/** Number of warm-up rounds. */
const WARM = 24;
const rounds = number("--rounds", 96);
const requests = number("--requests", 1000);
const flags = ["--served-model-name", "m", "--timing", "none"];
const QUIET = "--disable-uvicorn-access-log";
const body = { model: "m", messages: [{ role: "user", content: "Is this short?" }], max_tokens: 8, ignore_eos: true };
const answerFile = `${root}build/bench/answer-${process.pid}.json`;

/** Returns the CPU time of the server per request, in microseconds. */
async function cost({ pid, port }: RunningServer): Promise<number> {
  const beforeUs = finelyOf(pid);
  const each = requests / CONNECTIONS;
  const result = await read({ port, body, streams: CONNECTIONS, requests: each, path: "/v1/chat/completions" });
  if (result.completed !== requests || result.refused > 0) throw new Error(JSON.stringify(result));
  return (finelyOf(pid) - beforeUs) / requests;
}

const servers: RunningServer[] = [];
const run = async (command: readonly string[]) => {
  const server = await start(command, { core: SERVER_CORE });
  servers.push(server);
  return server;
};
const costs: Record<"bare" | "ours" | "logging", number[]> = { bare: [], ours: [], logging: [] };
let answerBytes = 0;
try {
  const ours = await run(serverCommand([...flags, QUIET]));
  const logging = await run(serverCommand(flags));
  const headers = { "content-type": "application/json" };
  const url = `http://127.0.0.1:${ours.port}/v1/chat/completions`;
  const answer = await (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).text();
  answerBytes = answer.length;
  await Bun.write(answerFile, answer);
  const bare = await run([process.execPath, "bench/lib/bare-server.ts", "--answer", answerFile]);
  for (let round = -WARM; round < rounds; round++) {
    progress(`short: round ${round + 1} of ${rounds}`);
    for (const [name, server] of Object.entries({ bare, ours, logging })) {
      const us = await cost(server);
      if (round >= 0) costs[name as keyof typeof costs].push(us);
    }
  }
} finally {
  for (const server of servers) await server.stop();
  rmSync(answerFile, { force: true });
}

const times = (name: keyof typeof costs) => median(costs[name].map((us, i) => us / costs.bare[i]!));
table(`${requests} requests on ${CONNECTIONS} connections, answers of ${answerBytes} bytes`, [
  ["CPU time of the server", "us per request", "÷ bare"],
  ["bare Bun.serve", median(costs.bare), 1],
  ["ours", median(costs.ours), times("ours")],
  ["ours, with its access log", median(costs.logging), times("logging")],
]);
console.log(`  ${bar("CPU time ÷ that of the bare server", times("ours"), BAR, "times")}`);
save("short", {
  requests,
  connections: CONNECTIONS,
  answerBytes,
  costs,
  times: times("ours"),
  logging: times("logging"),
});
