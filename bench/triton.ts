/**
 * What does Triton's HTTP cost? A request to `/infer` (16 integers) beside one that the same front answers at once, and a
 * token of `generate_stream` beside one of our own OpenAI stream, in turns in the same run; the median of the turns. Who asks
 * for whole answers never sleeps: to wake a client costs a server half of a bare answer, and the more often the slower it is.
 *
 *   bun run bench triton [--rounds 40] [--requests 1000] [--tokens 250] [--realtime] [--no-save]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "./lib/numbers.ts";
import { known, number } from "./lib/options.ts";
import { finelyOf, onOneProcessor, pinned, SERVER_CORE } from "./lib/process.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

known(["--rounds", "--requests", "--tokens", "--realtime", "--no-save", "--results"]);
const rounds = number("--rounds", 40);
const requests = number("--requests", 1000);
const tokens = number("--tokens", 250);
const BARS = { infer: 2, stream: 1.2 };
/** Rounds before those that count. */
const WARM = 24;
const CONNECTIONS = 8;
const STREAMS = 64;
const TIMING = "--timing=constant:ttft=10ms,itl=10ms";

interface Started {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

/** Where it listens stands in its banner. */
async function started(flags: readonly string[]): Promise<Started> {
  const command = [process.execPath, "src/main.ts", "serve", ...flags];
  const streams = { stdout: "pipe", stderr: "inherit" } as const;
  const child = Bun.spawn(pinned(SERVER_CORE, command), { ...streams, env: onOneProcessor() });
  const listening = Promise.withResolvers<number>();
  // What it says later is read too: it would end where nobody does.
  const heard = (async () => {
    let said = "";
    const decoder = new TextDecoder();
    for await (const part of child.stdout) {
      said += decoder.decode(part, { stream: true });
      const port = /listening +http:\S+:(\d+)/.exec(said)?.[1];
      if (port !== undefined) listening.resolve(Number(port));
    }
  })();
  void child.exited.then((code) => listening.reject(new Error(`${command.join(" ")} ended with ${code}`)));
  return {
    pid: child.pid,
    port: await listening.promise,
    async stop() {
      child.kill("SIGTERM");
      await Promise.all([child.exited, heard]);
    },
  };
}

async function costOf(server: Started, path: string, body: object, streams: number, each: number, units: number) {
  const beforeUs = finelyOf(server.pid);
  const seen = await read({ port: server.port, body, streams, requests: each, path, awake: each > 1 });
  if (seen.completed !== streams * each || seen.refused > 0) throw new Error(JSON.stringify(seen));
  return (finelyOf(server.pid) - beforeUs) / units;
}

const DATA = Array.from({ length: 16 }, (_, at) => at);
const INFER = {
  inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, shape: [1, 16], datatype: "INT32", data: DATA })),
};
/** Triton's model `simple`: 16 integers, in batches of up to 8. */
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
const servers: Started[] = [];
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

const times = (name: keyof typeof costs, beside: keyof typeof costs) =>
  median(costs[name].map((us, at) => us / costs[beside][at]!));
const infer = times("infer", "bare");
const stream = times("generate", "openai");
table(`${requests} requests on ${CONNECTIONS} connections; ${STREAMS} streams of ${tokens} tokens`, [
  ["CPU of the server", "us", "times"],
  ["a bare answer of the front", median(costs.bare), 1],
  ["/infer, 16 integers", median(costs.infer), infer],
  ["a token of our OpenAI stream", median(costs.openai), 1],
  ["a token of generate_stream", median(costs.generate), stream],
]);
console.log(`  ${bar("/infer against a bare answer", infer, BARS.infer, "times")}`);
console.log(`  ${bar("a token of generate_stream against ours of OpenAI's", stream, BARS.stream, "times")}`);
save("triton", { requests, connections: CONNECTIONS, streams: STREAMS, tokens, costs, infer, stream });
