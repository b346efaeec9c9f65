/** Tests load on a Triton server over gRPC and HTTP: unary, streamed, cancelled, refused, and compared with its truth. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { WallClock } from "../../../src/base/clock.ts";
import { ByteBudget } from "../../../src/base/growing-bytes.ts";
import { settingsOf } from "../../../src/cli/load/load-settings.ts";
import {
  answerIn,
  framedMessage,
  inferRequest,
  MessageReader,
  modelIn,
} from "../../../src/tools/load/clients/grpc-wire.ts";
import { Load } from "../../../src/tools/load/load.ts";
import { inputOf } from "../../../src/tools/load/requests/tensors.ts";
import type { Settings } from "../../../src/tools/load/settings.ts";
import { hostTriton, type TritonHosted } from "../../triton/child.ts";
import { decoded, encoded } from "../../triton/grpc-client.ts";
import { SETTINGS } from "./loaded.ts";

setDefaultTimeout(30_000);

const folder = mkdtempSync(join(tmpdir(), "load-triton-"));
const truth = join(folder, "truth.jsonl");
let server: TritonHosted;
beforeAll(async () => {
  const root = new URL("../../../", import.meta.url).pathname;
  const repositories = ["src/servers/triton/shipped", "test/triton/models", "examples/triton"].map(
    (path) => `--model-repository=${root}${path}`,
  );
  const models = ["vllm_model", "add_sub", "plain", "tokens", "summarizer"].map((name) => `--load-model=${name}`);
  server = await hostTriton([...repositories, "--model-control-mode=explicit", ...models, `--truth-log=${truth}`]);
});
afterAll(async () => {
  await server.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

async function load(model: string, more: Partial<Settings>) {
  const clock = new WallClock();
  const url = new URL(more.dialect === "triton-grpc" ? `http://127.0.0.1:${server.grpc}` : server.url);
  try {
    return await new Load({ ...SETTINGS, count: 8, concurrency: 4, url, ...more, model }, { clock, live: null }).run();
  } finally {
    clock.close();
  }
}

test("gRPC, a decoupled model: chunks as they come, and the truth from the server's log", async () => {
  const { records, result } = await load("vllm_model", {
    dialect: "triton-grpc",
    ignoreEos: true,
    truth: { log: truth },
  });
  expect(records.map(({ failure }) => failure)).toEqual(records.map(() => null));
  expect(records.map(({ chunkUs, done }) => [chunkUs.length, done])).toEqual(records.map(() => [5, true]));
  expect(result.understudy.truth).toMatchObject({ requests: 8, missing: 0 });
});

test("gRPC and HTTP, unary calls of any model", async () => {
  for (const [model, dialect] of [
    ["plain", "triton-grpc"],
    ["add_sub", "triton-grpc"],
    ["plain", "triton-http"],
    ["add_sub", "triton-http"],
  ] as const) {
    const { records, result } = await load(model, { dialect, stream: false });
    // Neither has tokens, so their number is not reported.
    expect(result.understudy.warnings?.filter((warning) => /length|as long as/.test(warning))).toEqual([]);
    expect(records.map(({ failure, chunkUs, status }) => [failure, chunkUs.length, status])).toEqual(
      records.map(() => [null, 1, 200]),
    );
  }
});

test("a model with a streaming input that is not decoupled is not asked for a stream", async () => {
  const { records } = await load("summarizer", { dialect: "triton-grpc" });
  expect(records.map(({ failure, chunkUs }) => [failure, chunkUs.length])).toEqual(records.map(() => [null, 1]));
});

test("failures are counted by kind", async () => {
  const kinds = ({ records }: Awaited<ReturnType<typeof load>>) => [
    ...new Set(records.map(({ failure }) => failure?.kind)),
  ];
  const cancelled = await load("vllm_model", {
    dialect: "triton-grpc",
    ignoreEos: true,
    dataset: { name: "random", inputLen: 4, outputLen: 500 },
    cancelShare: 1,
    cancelAfterS: 0.03,
  });
  expect(kinds(cancelled)).toEqual(["cancelled"]);
  const headers = { "X-Understudy": '{"fault":"G1@e2,exhausted"}' };
  const ended = await load("vllm_model", { dialect: "triton-grpc", ignoreEos: true, headers });
  expect(kinds(ended)).toEqual(["status"]);
  expect(ended.records[0]).toMatchObject({ failure: { message: "RESOURCE_EXHAUSTED: a fault ended the call" } });
  expect(ended.records[0]!.chunkUs).toHaveLength(2);
  const refused = { "X-Understudy": '{"fault":"A2"}' };
  expect(kinds(await load("plain", { dialect: "triton-http", stream: false, headers: refused }))).toEqual(["status"]);
});

test.each([
  ["nobody", { dialect: "triton-grpc" }, "Request for unknown model: 'nobody' is not found"],
  ["tokens", { dialect: "triton-grpc", stream: false }, "model tokens is decoupled; remove --no-stream"],
  ["nobody", { dialect: "triton-http" }, "Request for unknown model: 'nobody' is not found"],
  [
    "tokens",
    { dialect: "triton-http" },
    "model tokens is decoupled, which /infer does not support; use --backend triton-grpc",
  ],
] as const)("the command line is refused with one line: %s %j", async (model, more, why) => {
  const outcome = await load(model, more).then(
    () => "it ran",
    (error: Error) => error.message,
  );
  expect(outcome).toContain(why);
});

test("options that gRPC calls do not have are refused", () => {
  const read = (values: object) =>
    settingsOf({ backend: "triton-grpc", ...values }, { read: () => "", env: {} } as never);
  expect(read({ retries: 1 })).toEqual({
    error: "--retries: not with --backend triton-grpc, which sends each call once",
  });
  expect(read({ endpoint: "/x" })).toMatchObject({ error: expect.stringContaining("--endpoint: not with") });
  expect(read({ "check-truth": true })).toEqual({
    error: "--check-truth: a Triton server has the truth only in its --truth-log; use --check-truth-log FILE",
  });
  expect(read({ "check-truth": true, "check-truth-log": "f" })).not.toHaveProperty("error");
});

test("messages in any pieces equal those of the protobuf library", () => {
  const tensors = [
    { ...inputOf("text_input", "TYPE_STRING", [1], false, true), data: ["Grüße"] },
    { ...inputOf("max_tokens", "TYPE_INT32", [-1], true, false), data: [7] },
  ];
  expect(decoded("ModelInferRequest", inferRequest("m", "7", tensors, true))).toEqual({
    model_name: "m",
    id: "7",
    parameters: { triton_enable_empty_final_response: { bool_param: true } },
    inputs: [
      { name: "text_input", datatype: "BYTES", shape: ["1", "1"] },
      { name: "max_tokens", datatype: "INT32", shape: ["1"] },
    ],
    raw_input_contents: [Buffer.from("\u0007\u0000\u0000\u0000Grüße").toString("base64"), "BwAAAA=="],
  });
  const config = encoded("ModelConfigResponse", {
    config: {
      max_batch_size: 8,
      input: [{ name: "a", data_type: "TYPE_FP16", dims: ["3", "-1"], optional: true }],
      model_transaction_policy: { decoupled: true },
      parameters: { x: { string_value: "y" } },
    },
  });
  expect(modelIn("m", config)).toEqual({
    name: "m",
    decoupled: true,
    inputs: [{ name: "a", datatype: "FP16", shape: [1, 3, 1], optional: true }],
  });
  const answer = encoded("ModelStreamInferResponse", {
    infer_response: {
      model_name: "m",
      parameters: { triton_final_response: { bool_param: true }, other: { string_param: "x" } },
      outputs: [{ name: "n" }, { name: "text_output", datatype: "BYTES", shape: ["1"] }],
      raw_output_contents: ["AAA=", Buffer.from("\u0002\u0000\u0000\u0000hi").toString("base64")],
    },
  });
  const sent = Buffer.concat([
    framedMessage(answer),
    framedMessage(encoded("ModelStreamInferResponse", { error_message: "no" })),
  ]);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 20 }), (cuts) => {
      const reader = new MessageReader(1000, new ByteBudget(10_000));
      const seen: unknown[] = [];
      let at = 0;
      for (const length of [...cuts, sent.length]) {
        reader.push(sent.subarray(at, at + length), (message) => seen.push(answerIn(message, true)));
        at += length;
      }
      expect(seen).toEqual([
        { error: "", outputs: 2, final: true, text: "hi" },
        { error: "no", outputs: 0, final: null, text: "" },
      ]);
    }),
    { numRuns: 50 },
  );
});
