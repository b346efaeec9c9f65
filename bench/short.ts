/**
 * Measures the CPU time of a short answer that is not streamed. A bare `Bun.serve` that parses the same body and answers the
 * same JSON is measured in turn, and the median of the turns counts. Turns are short, so that no server idles for a second.
 * After a second the allocator returns memory to the system, and page faults would disturb the next turn.
 *
 *   bun run bench short [--rounds 96] [--requests 1000] [--base REV [--pairs 5]] [--realtime] [--no-save]
 */
import { rmSync } from "node:fs";
import { BASE_FLAGS, compareWithBase } from "./lib/base.ts";
import { bars, options, root, save, table } from "./lib/bench.ts";
import { CHAT_PATH, complete, post, read } from "./lib/client.ts";
import { median, medianRatio } from "./lib/numbers.ts";
import { bareServer, inTurns, type RunningServer, serve, withCpu } from "./lib/servers.ts";

const { rounds, requests } = options({ rounds: 96, requests: 1000 }, ["--realtime", ...BASE_FLAGS]);
await compareWithBase({
  name: "short",
  script: "bench/short.ts",
  costs: { "CPU, times the bare server": "times", "with its access log": "logging" },
});

const BAR = 2;
const CONNECTIONS = 8;
/** Number of warm-up rounds. */
const WARM = 24;
const flags = ["--served-model-name", "m", "--timing", "none"];
const body = { model: "m", messages: [{ role: "user", content: "Is this short?" }], max_tokens: 8, ignore_eos: true };
const answerFile = `${root}build/bench/answer-${process.pid}.json`;

/** Returns a function that measures the CPU time of the server per request, in microseconds. */
const costOf = (server: RunningServer) => async () => {
  const asked = { port: server.port, body, streams: CONNECTIONS, requests: requests / CONNECTIONS, path: CHAT_PATH };
  const { us } = await withCpu(server, async () => complete(await read(asked), requests));
  return us / requests;
};

await using quiet = await serve([...flags, "--disable-uvicorn-access-log"]);
await using logging = await serve(flags);
const answer = await (await post(quiet.port, CHAT_PATH, body)).text();
await Bun.write(answerFile, answer);
await using bare = await bareServer("--answer", answerFile);
rmSync(answerFile);
const contenders = { bare: costOf(bare), ours: costOf(quiet), logging: costOf(logging) };
const costs = await inTurns("short", rounds, contenders, WARM);

const times = (name: keyof typeof costs) => medianRatio(costs[name], costs.bare);
table(`${requests} requests on ${CONNECTIONS} connections, answers of ${answer.length} bytes`, [
  ["CPU time of the server", "us per request", "÷ bare"],
  ["bare Bun.serve", median(costs.bare), 1],
  ["ours", median(costs.ours), times("ours")],
  ["ours, with its access log", median(costs.logging), times("logging")],
]);
bars(["CPU time ÷ that of the bare server", times("ours"), BAR, "times"]);
save("short", {
  ...{ requests, connections: CONNECTIONS, answerBytes: answer.length, costs },
  ...{ times: times("ours"), logging: times("logging") },
});
