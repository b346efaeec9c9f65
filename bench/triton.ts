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
import { bars, figure, options, save, table } from "./lib/bench.ts";
import { complete, read } from "./lib/client.ts";
import { fitted, median, medianRatio } from "./lib/numbers.ts";
import { freePort, inTurns, type RunningServer, start, withCpu } from "./lib/servers.ts";

const { rounds, requests, tokens } = options({ rounds: 40, requests: 1000, tokens: 250 }, ["--realtime"]);
const BARS = { infer: 1.5, stream: 1.2 };
/** Number of warm-up rounds. */
const WARM = 24;
const CONNECTIONS = 8;
const STREAMS = 64;
const SERVE = [process.execPath, "src/main.ts", "serve", "--timing=constant:ttft=10ms,itl=10ms"];

/** Returns a function that measures the CPU time of the server per unit of its answers, in microseconds. */
function costOf(server: RunningServer, path: string, body: object, streams: number, each: number, units: number) {
  const asked = { port: server.port, body, streams, requests: each, path, awake: each > 1 };
  return async () => (await withCpu(server, async () => complete(await read(asked), streams * each))).us / units;
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

await using triton = await start(
  [
    ...[...SERVE, "--role=triton", ...models, "--allow-client-shm=true", "--max-num-seqs=256"],
    ...["grpc", "metrics"].map((name) => `--${name}-port=${freePort()}`),
  ],
  { portFlag: "--http-port", health: "/v2/health/ready" },
);
await using vllm = await start([...SERVE, "--served-model-name=m", "--disable-uvicorn-access-log"]);
const each = requests / CONNECTIONS;
const unary = (path: string) => (length: number) => costOf(triton, path, inferOf(length), CONNECTIONS, each, requests);
const kinds = { bare: unary("/v2/systemsharedmemory/unregister"), infer: unary("/v2/models/simple/infer") };
type Kind = keyof typeof kinds;
const unaries = ELEMENTS.flatMap((length) =>
  Object.entries(kinds).map(([name, costFor]) => [`${name} ${length}`, costFor(length)] as const),
);
const streams = {
  openai: costOf(vllm, "/v1/completions", COMPLETION, STREAMS, 1, STREAMS * tokens),
  generate: costOf(triton, "/v2/models/vllm_model/generate_stream", GENERATE, STREAMS, 1, STREAMS * tokens),
};
const costs: Record<string, readonly number[]> = {
  ...(await inTurns("triton", rounds, Object.fromEntries(unaries), WARM)),
  ...(await inTurns("triton", Math.ceil(rounds / 8), streams, 2)),
};
rmSync(repository, { recursive: true });

const ratioOf = (name: string, to: string) => medianRatio(costs[name]!, costs[to]!);
const lineOf = (name: Kind) => {
  const us = ELEMENTS.map((length) => median(costs[`${name} ${length}`]!));
  return { name, ...fitted(ELEMENTS.map((length, i) => [length, us[i]!])), us };
};
const [bare, infer] = [lineOf("bare"), lineOf("infer")];
const lines = [bare, infer];
const stream = ratioOf("generate", "openai");
table(`CPU time of a request, µs, as a + b · elements of each tensor, and for some numbers of elements`, [
  ["", "a", "b", ...ELEMENTS.map(String)],
  ...lines.map(({ name, a, b, us }) => [name, figure(a), figure(b), ...us.map(figure)]),
  ["times", "", "", ...ELEMENTS.map((length) => ratioOf(`infer ${length}`, `bare ${length}`).toFixed(2))],
]);
table(`${STREAMS} streams of ${tokens} tokens`, [
  ["CPU time of the server", "us", "ratio"],
  ["a token of our OpenAI stream", median(costs.openai!), 1],
  ["a token of generate_stream", median(costs.generate!), stream],
]);
bars(
  ["a of /infer ÷ a of a bare answer", infer.a / bare.a, BARS.infer, "times"],
  ["a token of generate_stream ÷ one of our OpenAI stream", stream, BARS.stream, "times"],
);
save("triton", { requests, connections: CONNECTIONS, streams: STREAMS, tokens, costs, lines, stream });
