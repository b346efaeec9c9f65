/**
 * Measures whether one client of a Triton server can delay the others. Fifty streams receive a response every 20 ms while another
 * client sends large or many requests. The result of a row is the streams' longest gap, minus their longest gap in an equally
 * long time without that client. The bench also reports the largest RSS and the time that the client waits.
 *
 * A row that exceeds its bound is measured twice more, and the median of the three counts. If a garbage collection falls into
 * the time (by the runtime's log), the gap may be 25 ms longer.
 *
 *   bun run bench hold-triton [--rows WORDS] [--streams 50] [--no-save]
 */
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { encoded, packedCall, SERVICE, TritonClient } from "../test/triton/grpc-client.ts";
import { ATTACKS } from "../test/triton/wire-messages.ts";
import { bars, options, root, save, table } from "./lib/bench.ts";
import { longestGapMs, read } from "./lib/client.ts";
import { Collections } from "./lib/collections.ts";
import { AROUND_MS, gapsBeside, measureRows, noteGap } from "./lib/gaps.ts";
import { attack, HTTP2_ATTACKS } from "./lib/http2-attacks.ts";
import { freePort, start } from "./lib/servers.ts";

const { streams: count } = options({ streams: 50, rows: "" });
const PERIOD_MS = 20;
const LONGEST_MS = 15_000;
const MOST_BAR_MB = 1200;

const repository = `${root}build/bench/hold-triton`;
const tensor = (name: string, type: string) => `{ name: "${name}" data_type: ${type} dims: [ -1 ] }`;
const MODELS: Readonly<Record<string, readonly [config: string, behaviour: string]>> = {
  tokens: [
    `input [ ${tensor("text_input", "TYPE_STRING")}, { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] optional: true },
     { name: "sleep_ms" data_type: TYPE_INT32 dims: [ 1 ] optional: true } ] output ${tensor("text_output", "TYPE_STRING")}
     model_transaction_policy { decoupled: true }`,
    "decoupled_repeat",
  ],
  ...Object.fromEntries(
    ["INT32", "INT64", "FP32", "STRING"].map((type) => [
      type,
      [`input ${tensor("x", `TYPE_${type}`)} output ${tensor("y", `TYPE_${type}`)}`, "identity"] as const,
    ]),
  ),
};
rmSync(repository, { recursive: true, force: true });
for (const [name, [config, behaviour]] of Object.entries(MODELS)) {
  mkdirSync(`${repository}/${name}/1`, { recursive: true });
  writeFileSync(`${repository}/${name}/config.pbtxt`, `backend: "python" ${config}`);
  writeFileSync(`${repository}/${name}/behaviour.yaml`, `behaviour: ${behaviour}`);
}
const LLM_MODELS = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls", "vllm_model"];
for (const name of LLM_MODELS)
  cpSync(`${root}src/servers/triton/shipped/${name}`, `${repository}/${name}`, { recursive: true });
// A model with a configuration of many fields.
mkdirSync(`${repository}/wordy/1`, { recursive: true });
const parameters = Array.from(
  { length: 20_000 },
  (_, at) => `parameters { key: "k${at}" value { string_value: "v" } }`,
);
writeFileSync(`${repository}/wordy/config.pbtxt`, `backend: "python" ${MODELS.INT32![0]} ${parameters.join("\n")}`);

const [grpcPort, metricsPort] = [freePort(), freePort()];
const flags = [`--grpc-port=${grpcPort}`, `--metrics-port=${metricsPort}`, "--load-time=0"];
const loaded = [...Object.keys(MODELS), ...LLM_MODELS].map((name) => `--load-model=${name}`);
const command = [process.execPath, "src/main.ts", "serve", "--role", "triton", `--model-repository=${repository}`];
const collections = new Collections("hold-triton");
await using server = await start([...command, "--model-control-mode=explicit", ...flags, ...loaded], {
  ...{ portFlag: "--http-port", health: "/v2/health/ready", ...collections.start },
});
const url = `http://127.0.0.1:${server.port}/v2`;

const COUNT = 1_000_000;
const BINARY = 15 * 2 ** 20;
const infer = async (model: string, body: string | Uint8Array, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${url}/models/${model}/infer`, { method: "POST", body, headers });
  if (!answer.ok) throw new Error(`${model}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
};
/** Infers a tensor that is sent and returned as JSON. */
const json = (type: string, datatype: string, count: number, value: (at: number) => unknown) => {
  const data = JSON.stringify(Array.from({ length: count }, (_, at) => value(at)));
  return infer(type, `{"inputs":[{"name":"x","shape":[${count}],"datatype":"${datatype}","data":${data}}]}`);
};
/** Requests 5 tokens and waits for the answer, which is an error if the prompt is too long. */
const generated = async (model: string, fields: object, path = "generate") => {
  const body = JSON.stringify({ max_tokens: 5, ...fields });
  await (await fetch(`${url}/models/${model}/${path}`, { method: "POST", body })).arrayBuffer();
};
const BAD_WORDS = Array.from({ length: 500_000 }, (_, at) => `word ${at}`);
const LONG_TEXT = "word ".repeat(12_000_000);

function binary(): Promise<void> {
  const head = Buffer.from(
    `{"inputs":[{"name":"x","shape":[${BINARY}],"datatype":"FP32","parameters":{"binary_data_size":${4 * BINARY}}}],"parameters":{"binary_data_output":true}}`,
  );
  return infer("FP32", Buffer.concat([head, Buffer.alloc(4 * BINARY)]), {
    "Inference-Header-Content-Length": `${head.length}`,
  });
}

async function overGrpc(act: (client: TritonClient) => Promise<unknown>): Promise<void> {
  const client = new TritonClient(grpcPort, undefined, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  try {
    await act(client);
  } finally {
    client.close();
  }
}
const large = (client: TritonClient) =>
  client.call("ModelInfer", {
    model_name: "FP32",
    inputs: [{ name: "x", datatype: "FP32", shape: [`${BINARY}`] }],
    raw_input_contents: [Buffer.alloc(4 * BINARY).toString("base64")],
  });
const asked = encoded("ModelInferRequest", {
  model_name: "tokens",
  inputs: [{ name: "text_input", datatype: "BYTES", shape: ["1"] }],
  raw_input_contents: [Buffer.from("\u0003\u0000\u0000\u0000one").toString("base64")],
});
const streamed = (client: TritonClient, resets: boolean) =>
  new Promise<void>((done) => {
    const call = client.stream();
    call.on("data", () => {});
    call.on("error", () => {});
    call.on("status", () => done());
    call.write(asked);
    if (resets) call.cancel();
    else call.end();
  });
const many = <T>(count: number, send: () => Promise<T>) => Promise.all(Array.from({ length: count }, send));

/** Sends an encoded message and waits for the end of the call. The server refuses most of these messages. */
const sent = (method: string, body: Buffer) =>
  overGrpc(
    ({ client }) =>
      new Promise<void>((done) => {
        const raw = (bytes: Buffer) => bytes;
        const path = method.startsWith("/") ? method : SERVICE + method;
        client.makeUnaryRequest(path, raw, raw, body, () => done());
      }),
  );
const zeros = gzipSync(Buffer.alloc(500_000_000), { level: 1 });

type Act = () => Promise<unknown>;
const rowsOf = <T>(values: readonly T[], row: (value: T) => readonly [name: string, act: Act]) =>
  Object.fromEntries(values.map(row));

const ROWS: Readonly<Record<string, Act>> = {
  ...rowsOf(Object.entries(ATTACKS), ([name, { method, body }]) => [
    `fields over gRPC: ${name}`,
    () => sent(method, body()),
  ]),
  "500 MB of zeros over gRPC, packed": () => packedCall(grpcPort, zeros),
  "eight times 500 MB of zeros over gRPC, packed": () => many(8, () => packedCall(grpcPort, zeros)),
  "1,000,000 INT32 in JSON, there and back": () => json("INT32", "INT32", COUNT, (at) => at),
  "1,000,000 FP32 in JSON, there and back": () => json("FP32", "FP32", COUNT, (at) => at / 7),
  "200,000 texts in JSON, there and back": () => json("STRING", "BYTES", 200_000, (at) => `text ${at}`),
  "60 MiB of binary, there and back": binary,
  "60 MiB over gRPC, there and back": () => overGrpc(large),
  ...rowsOf(["ensemble", "tensorrt_llm_bls", "vllm_model"], (model) => [
    `text_input of 60 MB on /generate of ${model}`,
    () => generated(model, { text_input: LONG_TEXT }),
  ]),
  ...rowsOf(["ensemble", "tensorrt_llm_bls"], (model) => [
    `500,000 bad_words on /generate of ${model}`,
    () => generated(model, { text_input: "a", bad_words: BAD_WORDS }),
  ]),
  "2,000 requests at once": () =>
    many(2000, () => infer("INT32", '{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}')),
  "500 streams at once": () =>
    many(500, () => generated("tokens", { text_input: "one two", max_tokens: undefined }, "generate_stream")),
  "2,000 streams of gRPC at once": () => overGrpc((client) => many(2000, () => streamed(client, false))),
  "2,000 streams of gRPC, reset at once": () => overGrpc((client) => many(2000, () => streamed(client, true))),
  "a configuration of 20,000 parameters is loaded and shown": async () => {
    await fetch(`${url}/repository/models/wordy/load`, { method: "POST" });
    await (await fetch(`${url}/models/wordy/config`)).arrayBuffer();
    await fetch(`${url}/repository/models/wordy/unload`, { method: "POST" });
  },
  ...rowsOf(HTTP2_ATTACKS, (frames) => [
    `${frames.name}, gRPC`,
    () => attack(frames, grpcPort, `${SERVICE}ModelInfer`),
  ]),
};

const body = { text_input: "word", max_tokens: 1_000_000, sleep_ms: PERIOD_MS };
const streams = { body, path: "/v2/models/tokens/generate_stream", streams: count };

async function measure({ name, act }: { readonly name: string; readonly act: Act }) {
  const took = async () => {
    const from = performance.now();
    await act();
    return performance.now() - from;
  };
  const aloneMs = await took();
  const durationMs = Math.min(LONGEST_MS, Math.ceil(2 * AROUND_MS + 3 * aloneMs));
  const controlMs = longestGapMs(await read({ ...streams, port: server.port, durationMs, gaps: true }));
  const { acted, ...gaps } = await gapsBeside({ server, collections, streams }, durationMs, controlMs, took);
  return { name, aloneMs, besideMs: acted, ...gaps };
}

const rows = Object.entries(ROWS).map(([name, act]) => ({ name, act }));
const { found, again } = await measureRows("hold-triton", rows, measure);
table(`during ${count} streams of a response every ${PERIOD_MS} ms`, [
  ["", "client alone ms", "with streams ms", "gap ms", "gap without client", "collection ms", "largest RSS MB"],
  ...found.map(({ name, aloneMs, besideMs, gapMs, controlMs, collectionMs, mostMb }) => [
    ...[name, aloneMs, besideMs, gapMs, controlMs, collectionMs, mostMb],
  ]),
]);
for (const row of found) noteGap(row.name, row, again[row.name]);
bars(["largest RSS", Math.max(...found.map(({ mostMb }) => mostMb)), MOST_BAR_MB, "MB"]);
save("hold-triton", { streams: count, periodMs: PERIOD_MS, rows: found, again });
