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
import { Collections } from "./lib/collections.ts";
import { type Gaps, judged, moreRuns } from "./lib/gaps.ts";
import { attack, HTTP2_ATTACKS } from "./lib/http2-attacks.ts";
import { number, rejectUnknown, text } from "./lib/options.ts";
import { freePort, onOneProcessor, pinned, residentBytes, SERVER_CORE } from "./lib/process.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

rejectUnknown(["--rows", "--streams", "--no-save"]);
const STREAMS = number("--streams", 50);
const wanted = text("--rows", "").split(";");
const PERIOD_MS = 20;
const AROUND_MS = 700;
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

const [httpPort, grpcPort, metricsPort] = [freePort(), freePort(), freePort()];
const url = `http://127.0.0.1:${httpPort}/v2`;
const flags = [`--http-port=${httpPort}`, `--grpc-port=${grpcPort}`, `--metrics-port=${metricsPort}`, "--load-time=0"];
const loaded = [...Object.keys(MODELS), ...LLM_MODELS].map((name) => `--load-model=${name}`);
const command = [process.execPath, "src/main.ts", "serve", "--role", "triton", `--model-repository=${repository}`];
const collections = new Collections("hold-triton");
const { env, complaints } = collections.start;
const server = Bun.spawn(pinned(SERVER_CORE, [...command, "--model-control-mode=explicit", ...flags, ...loaded]), {
  cwd: root,
  env: { ...onOneProcessor(), ...env },
  stdout: "ignore",
  stderr: Bun.file(complaints),
});
while (
  !(await fetch(`${url}/health/ready`).then(
    ({ ok }) => ok,
    () => false,
  ))
)
  await Bun.sleep(20);

const COUNT = 1_000_000;
const BINARY = 15 * 2 ** 20;
const numbers = (value: (at: number) => unknown, count = COUNT) =>
  JSON.stringify(Array.from({ length: count }, (_, at) => value(at)));
const infer = async (model: string, body: string | Uint8Array, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${url}/models/${model}/infer`, { method: "POST", body, headers });
  if (!answer.ok) throw new Error(`${model}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
};
const json = (type: string, datatype: string, data: string, count = COUNT) =>
  infer(type, `{"inputs":[{"name":"x","shape":[${count}],"datatype":"${datatype}","data":${data}}]}`);
/** Requests 5 tokens and waits for the answer, which is an error if the prompt is too long. */
const generated = async (model: string, fields: object) => {
  const body = JSON.stringify({ max_tokens: 5, ...fields });
  await (await fetch(`${url}/models/${model}/generate`, { method: "POST", body })).arrayBuffer();
};
const BAD_WORDS = Array.from({ length: 500_000 }, (_, at) => `word ${at}`);
const LONG_TEXT = "word ".repeat(12_000_000);
const words = { name: "text_input", shape: [1], datatype: "BYTES", data: ["one two"] };

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

const ROWS: Readonly<Record<string, () => Promise<unknown>>> = {
  ...Object.fromEntries(
    Object.entries(ATTACKS).map(([name, { method, body }]) => [
      `fields over gRPC: ${name}`,
      () => sent(method, body()),
    ]),
  ),
  "500 MB of zeros over gRPC, packed": () => packedCall(grpcPort, zeros),
  "eight times 500 MB of zeros over gRPC, packed": () => many(8, () => packedCall(grpcPort, zeros)),
  "1,000,000 INT32 in JSON, there and back": () =>
    json(
      "INT32",
      "INT32",
      numbers((at) => at),
    ),
  "1,000,000 FP32 in JSON, there and back": () =>
    json(
      "FP32",
      "FP32",
      numbers((at) => at / 7),
    ),
  "200,000 texts in JSON, there and back": () =>
    json(
      "STRING",
      "BYTES",
      numbers((at) => `text ${at}`, 200_000),
      200_000,
    ),
  "60 MiB of binary, there and back": binary,
  "60 MiB over gRPC, there and back": () => overGrpc(large),
  ...Object.fromEntries(
    ["ensemble", "tensorrt_llm_bls", "vllm_model"].map((model) => [
      `text_input of 60 MB on /generate of ${model}`,
      () => generated(model, { text_input: LONG_TEXT }),
    ]),
  ),
  "500,000 bad_words on /generate of ensemble": () => generated("ensemble", { text_input: "a", bad_words: BAD_WORDS }),
  "500,000 bad_words on /generate of tensorrt_llm_bls": () =>
    generated("tensorrt_llm_bls", { text_input: "a", bad_words: BAD_WORDS }),
  "2,000 requests at once": () =>
    many(2000, () => infer("INT32", '{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}')),
  "500 streams at once": () =>
    many(500, async () => {
      const body = JSON.stringify({ text_input: words.data[0] });
      await (await fetch(`${url}/models/tokens/generate_stream`, { method: "POST", body })).arrayBuffer();
    }),
  "2,000 streams of gRPC at once": () => overGrpc((client) => many(2000, () => streamed(client, false))),
  "2,000 streams of gRPC, reset at once": () => overGrpc((client) => many(2000, () => streamed(client, true))),
  "a configuration of 20,000 parameters is loaded and shown": async () => {
    await fetch(`${url}/repository/models/wordy/load`, { method: "POST" });
    await (await fetch(`${url}/models/wordy/config`)).arrayBuffer();
    await fetch(`${url}/repository/models/wordy/unload`, { method: "POST" });
  },
  ...Object.fromEntries(
    HTTP2_ATTACKS.map((frames) => [
      `${frames.name}, gRPC`,
      () => attack(frames, grpcPort, "/inference.GRPCInferenceService/ModelInfer"),
    ]),
  ),
};

const body = { text_input: "word", max_tokens: 1_000_000, sleep_ms: PERIOD_MS };
async function gapMs(durationMs: number): Promise<number> {
  const path = "/v2/models/tokens/generate_stream";
  const result = await read({ port: httpPort, path, body, streams: STREAMS, durationMs, gaps: true });
  if (result.refused > 0 || result.errors > 0 || result.events === 0) throw new Error(JSON.stringify(result));
  return result.gapUs!.max / 1000;
}

async function measure(name: string) {
  progress(`hold-triton: ${name}`);
  const took = async () => {
    const from = performance.now();
    await ROWS[name]!();
    return performance.now() - from;
  };
  const aloneMs = await took();
  const durationMs = Math.min(LONGEST_MS, Math.ceil(2 * AROUND_MS + 3 * aloneMs));
  const controlMs = await gapMs(durationMs);
  let most = 0;
  const watch = setInterval(() => (most = Math.max(most, residentBytes(server.pid))), 20);
  collections.longestMs();
  const reading = gapMs(durationMs);
  await Bun.sleep(AROUND_MS);
  const besideMs = await took();
  const gaps: Gaps = { gapMs: await reading, controlMs, collectionMs: collections.longestMs() };
  clearInterval(watch);
  return { name, aloneMs, besideMs, ...gaps, mostMb: most / 1e6 };
}

const found: Awaited<ReturnType<typeof measure>>[] = [];
const again = new Map<string, Gaps[]>();
try {
  for (const name of Object.keys(ROWS)) if (wanted.some((word) => name.includes(word))) found.push(await measure(name));
  for (const row of found) {
    const runs = await moreRuns(row, () => measure(row.name));
    if (runs.length > 0) again.set(row.name, runs);
  }
} finally {
  server.kill();
  await server.exited;
}
table(`during ${STREAMS} streams of a response every ${PERIOD_MS} ms`, [
  ["", "client alone ms", "with streams ms", "gap ms", "gap without client", "collection ms", "largest RSS MB"],
  ...found.map(({ name, aloneMs, besideMs, gapMs, controlMs, collectionMs, mostMb }) => [
    ...[name, aloneMs, besideMs, gapMs, controlMs, collectionMs, mostMb],
  ]),
]);
for (const row of found) console.log(`  ${judged(row.name, [row, ...(again.get(row.name) ?? [])])}`);
console.log(`  ${bar("largest RSS", Math.max(...found.map(({ mostMb }) => mostMb)), MOST_BAR_MB, "MB")}`);
save("hold-triton", { streams: STREAMS, periodMs: PERIOD_MS, rows: found, again: Object.fromEntries(again) });
