/**
 * Measures the CPU time of Triton's HTTP. Requests to `/infer` with two tensors of 1 to 256 integers are compared with requests
 * of the same bytes that the same front end answers at once. Each is fitted as a + b · elements, so `a` is the cost of a
 * request and `b` that of an element of each tensor. A token of `generate_stream` is compared with a token of our OpenAI
 * stream. Both run in turn, and the median of the turns counts.
 *
 * The client of unstreamed requests never sleeps, because waking a client costs the server half a bare answer, and a slower
 * server wakes it more often.
 *
 *   bun run bench triton [--rounds 40] [--requests 1000] [--tokens 250] [--realtime] [--no-save]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fitted, median } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { finelyOf, onOneProcessor, pinned, SERVER_CORE } from "./lib/process.ts";
import { read } from "./lib/reader.ts";
import { bar, figure, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--requests", "--tokens", "--realtime", "--no-save", "--results"]);
const rounds = number("--rounds", 40);
const requests = number("--requests", 1000);
const tokens = number("--tokens", 250);
const BARS = { infer: 1.5, stream: 1.2 };
/** Number of warm-up rounds. */
const WARM = 24;
const CONNECTIONS = 8;
const STREAMS = 64;
const TIMING = "--timing=constant:ttft=10ms,itl=10ms";

interface RunningServer {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts a server and reads its port from its banner. */
async function started(flags: readonly string[]): Promise<RunningServer> {
  const command = [process.execPath, "src/main.ts", "serve", ...flags];
  const streams = { stdout: "pipe", stderr: "inherit" } as const;
  const child = Bun.spawn(pinned(SERVER_CORE, command), { ...streams, env: onOneProcessor() });
  const listening = Promise.withResolvers<number>();
  // Later output is read, too, because the server would end if its pipe were closed.
  const reading = (async () => {
    let output = "";
    const decoder = new TextDecoder();
    for await (const part of child.stdout) {
      output += decoder.decode(part, { stream: true });
      const port = /listening +http:\S+:(\d+)/.exec(output)?.[1];
      if (port !== undefined) listening.resolve(Number(port));
    }
  })();
  void child.exited.then((code) => listening.reject(new Error(`${command.join(" ")}: exited with code ${code}`)));
  return {
    pid: child.pid,
    port: await listening.promise,
    async stop() {
      child.kill("SIGTERM");
      await Promise.all([child.exited, reading]);
    },
  };
}

async function costOf(server: RunningServer, path: string, body: object, streams: number, each: number, units: number) {
  const beforeUs = finelyOf(server.pid);
  const result = await read({ port: server.port, body, streams, requests: each, path, awake: each > 1 });
  if (result.completed !== streams * each || result.refused > 0) throw new Error(JSON.stringify(result));
  return (finelyOf(server.pid) - beforeUs) / units;
}

/** Elements of each tensor. */
const ELEMENTS = [1, 4, 16, 64, 256] as const;

const inferOf = (length: number) => ({
  inputs: ["INPUT0", "INPUT1"].map((name) => ({
    ...{ name, shape: [1, length], datatype: "INT32" },
    data: Array.from({ length }, (_, at) => at % 16),
  })),
});
/** Configuration of Triton's example model `simple`, for any number of integers. It takes batches of up to 8. */
const SIMPLE = `backend: "python" max_batch_size: 8 dynamic_batching { } instance_group [ { kind: KIND_CPU } ]
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ -1 ] } ]`;
const repository = mkdtempSync(join(tmpdir(), "bench-triton-"));
mkdirSync(join(repository, "simple/1"), { recursive: true });
writeFileSync(join(repository, "simple/config.pbtxt"), SIMPLE);
writeFileSync(join(repository, "simple/behaviour.yaml"), "behaviour: add_sub\n");
const models = ["src/servers/triton/shipped", repository].map((path) => `--model-repository=${path}`);
const common = { max_tokens: tokens, ignore_eos: true, stream: true };
const GENERATE = { text_input: "Is this a stream?", ...common };
const COMPLETION = { model: "m", prompt: "Is this a stream?", ...common };

const ports = ["http", "grpc", "metrics"].map((name) => `--${name}-port=0`);
const servers: RunningServer[] = [];
const run = async (flags: readonly string[]) => {
  const server = await started(flags);
  servers.push(server);
  return server;
};
type Work = "openai" | "generate" | `${"bare" | "infer"} ${(typeof ELEMENTS)[number]}`;
const costs = new Map<Work, number[]>();
try {
  const flags = ["--allow-client-shm=true", TIMING, "--max-num-seqs=256"];
  const triton = await run(["--role", "triton", ...models, ...ports, ...flags]);
  const openai = await run(["--port", "0", "--served-model-name", "m", TIMING, "--disable-uvicorn-access-log"]);
  const each = requests / CONNECTIONS;
  const unary = (path: string, length: number) => () =>
    costOf(triton, path, inferOf(length), CONNECTIONS, each, requests);
  const bare = "/v2/systemsharedmemory/unregister";
  const unaries = ELEMENTS.flatMap((length): [Work, () => Promise<number>][] => [
    [`bare ${length}`, unary(bare, length)],
    [`infer ${length}`, unary("/v2/models/simple/infer", length)],
  ]);
  const streamed = (server: RunningServer, path: string, body: object) => () =>
    costOf(server, path, body, STREAMS, 1, STREAMS * tokens);
  const streams: [Work, () => Promise<number>][] = [
    ["openai", streamed(openai, "/v1/completions", COMPLETION)],
    ["generate", streamed(triton, "/v2/models/vllm_model/generate_stream", GENERATE)],
  ];
  const turns = async (works: readonly [Work, () => Promise<number>][], warm: number, count: number) => {
    for (let round = -warm; round < count; round++) {
      progress(`triton: ${works.map(([name]) => name).join(", ")}, round ${round + 1} of ${count}`);
      for (const [name, work] of works) {
        const us = await work();
        if (round >= 0) costs.set(name, [...(costs.get(name) ?? []), us]);
      }
    }
  };
  await turns(unaries, WARM, rounds);
  await turns(streams, 2, Math.ceil(rounds / 8));
} finally {
  for (const server of servers) await server.stop();
  rmSync(repository, { recursive: true, force: true });
}

const usOf = (name: Work) => median(costs.get(name)!);
const ratioOf = (name: Work, to: Work) => median(costs.get(name)!.map((us, i) => us / costs.get(to)![i]!));
const lines = (["bare", "infer"] as const).map((name) => {
  const us = ELEMENTS.map((length) => usOf(`${name} ${length}`));
  return { name, ...fitted(ELEMENTS.map((length, i) => [length, us[i]!])), us };
});
const [bare, infer] = [lines[0]!, lines[1]!];
const stream = ratioOf("generate", "openai");
table(`CPU time of a request, µs, as a + b · elements of each tensor, and for some numbers of elements`, [
  ["", "a", "b", ...ELEMENTS.map(String)],
  ...lines.map(({ name, a, b, us }) => [name, figure(a), figure(b), ...us.map(figure)]),
  ["times", "", "", ...ELEMENTS.map((length) => ratioOf(`infer ${length}`, `bare ${length}`).toFixed(2))],
]);
table(`${STREAMS} streams of ${tokens} tokens`, [
  ["CPU time of the server", "us", "ratio"],
  ["a token of our OpenAI stream", usOf("openai"), 1],
  ["a token of generate_stream", usOf("generate"), stream],
]);
console.log(`  ${bar("a of /infer ÷ a of a bare answer", infer.a / bare.a, BARS.infer, "times")}`);
console.log(`  ${bar("a token of generate_stream ÷ one of our OpenAI stream", stream, BARS.stream, "times")}`);
const all = Object.fromEntries(costs);
save("triton", { requests, connections: CONNECTIONS, streams: STREAMS, tokens, costs: all, lines, stream });
