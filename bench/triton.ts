/**
 * Measures the CPU time of Triton's HTTP. A request to `/infer` (16 integers) is compared with a request that the same front end
 * answers at once. A token of `generate_stream` is compared with a token of our OpenAI stream. Both run in turn, and the median
 * of the turns counts.
 *
 * The client of unstreamed requests never sleeps, because waking a client costs the server half a bare answer, and a slower
 * server wakes it more often.
 *
 *   bun run bench triton [--rounds 40] [--requests 1000] [--tokens 250] [--realtime] [--no-save]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown } from "./lib/options.ts";
import { finelyOf, onOneProcessor, pinned, SERVER_CORE } from "./lib/process.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
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

const DATA = Array.from({ length: 16 }, (_, at) => at);
const INFER = {
  inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, shape: [1, 16], datatype: "INT32", data: DATA })),
};
/** Configuration of Triton's example model `simple`, which takes 16 integers and batches of up to 8. */
const SIMPLE = `backend: "python" max_batch_size: 8 dynamic_batching { } instance_group [ { kind: KIND_CPU } ]
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]`;
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
const costs: Record<"bare" | "infer" | "openai" | "generate", number[]> = {
  bare: [],
  infer: [],
  openai: [],
  generate: [],
};
try {
  const triton = await run([
    "--role",
    "triton",
    ...models,
    ...ports,
    "--allow-client-shm=true",
    TIMING,
    "--max-num-seqs=256",
  ]);
  const openai = await run(["--port", "0", "--served-model-name", "m", TIMING, "--disable-uvicorn-access-log"]);
  const each = requests / CONNECTIONS;
  const works = {
    bare: () => costOf(triton, "/v2/systemsharedmemory/unregister", INFER, CONNECTIONS, each, requests),
    infer: () => costOf(triton, "/v2/models/simple/infer", INFER, CONNECTIONS, each, requests),
    openai: () => costOf(openai, "/v1/completions", COMPLETION, STREAMS, 1, STREAMS * tokens),
    generate: () => costOf(triton, "/v2/models/vllm_model/generate_stream", GENERATE, STREAMS, 1, STREAMS * tokens),
  };
  const turns = async (names: readonly (keyof typeof costs)[], warm: number, count: number) => {
    for (let round = -warm; round < count; round++) {
      progress(`triton: ${names.join(" and ")}, round ${round + 1} of ${count}`);
      for (const name of names) {
        const us = await works[name]();
        if (round >= 0) costs[name].push(us);
      }
    }
  };
  await turns(["bare", "infer"], WARM, rounds);
  await turns(["openai", "generate"], 2, Math.ceil(rounds / 8));
} finally {
  for (const server of servers) await server.stop();
  rmSync(repository, { recursive: true, force: true });
}

const ratioOf = (name: keyof typeof costs, to: keyof typeof costs) =>
  median(costs[name].map((us, i) => us / costs[to][i]!));
const infer = ratioOf("infer", "bare");
const stream = ratioOf("generate", "openai");
table(`${requests} requests on ${CONNECTIONS} connections; ${STREAMS} streams of ${tokens} tokens`, [
  ["CPU time of the server", "us", "ratio"],
  ["a bare answer of the front end", median(costs.bare), 1],
  ["/infer, 16 integers", median(costs.infer), infer],
  ["a token of our OpenAI stream", median(costs.openai), 1],
  ["a token of generate_stream", median(costs.generate), stream],
]);
console.log(`  ${bar("/infer ÷ a bare answer", infer, BARS.infer, "times")}`);
console.log(`  ${bar("a token of generate_stream ÷ one of our OpenAI stream", stream, BARS.stream, "times")}`);
save("triton", { requests, connections: CONNECTIONS, streams: STREAMS, tokens, costs, infer, stream });
