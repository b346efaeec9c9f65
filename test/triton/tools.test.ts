/**
 * Tests the requests that perf_analyzer and genai-perf send, in the same order and form. Their binaries cannot be installed here.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { hostTriton, type TritonHosted } from "./child.ts";
import { bytesText, decoded, encoded, input, TritonClient } from "./grpc-client.ts";

const root = new URL("../../", import.meta.url).pathname;
let server: TritonHosted;
let client: TritonClient;
beforeAll(async () => {
  const models = ["ens", "ens_a", "ens_b", "vllm_model"].map((name) => `--load-model=${name}`);
  const repositories = ["test/triton/models", "src/servers/triton/shipped"].map(
    (path) => `--model-repository=${root}${path}`,
  );
  server = await hostTriton([...repositories, "--model-control-mode=explicit", ...models]);
  client = new TritonClient(server.grpc);
});
afterAll(async () => {
  client.close();
  await server.stop(0);
});

const get = async (path: string) => (await fetch(`${server.url}/v2${path}`)).json();

test("perf_analyzer over HTTP: its requests about an ensemble before and after a measurement", async () => {
  expect(await get("")).toMatchObject({ name: "triton", extensions: expect.arrayContaining(["statistics"]) });
  expect(await get("/models/ens")).toMatchObject({ platform: "ensemble", versions: ["1"] });
  const config = (await get("/models/ens/config")) as {
    max_batch_size: number;
    model_transaction_policy: { decoupled: boolean };
    ensemble_scheduling: { step: { model_name: string }[] };
  };
  expect(config).toMatchObject({ max_batch_size: 0, model_transaction_policy: { decoupled: false } });
  const composing = config.ensemble_scheduling.step.map(({ model_name: name }) => name);
  for (const name of composing) expect(await get(`/models/${name}/config`)).toMatchObject({ name });
  for (const kind of ["system", "cuda"])
    expect((await fetch(`${server.url}/v2/${kind}sharedmemory/unregister`, { method: "POST" })).status).toBe(501);
  const counts = () =>
    Promise.all(
      ["ens", ...composing].map(async (name) => {
        const { model_stats: stats } = (await get(`/models/${name}/versions/1/stats`)) as {
          model_stats: { inference_stats: Record<string, { count: number; ns: number }> }[];
        };
        const { success, queue, compute_input, compute_infer, compute_output } = stats[0]!.inference_stats;
        for (const one of [success, queue, compute_input, compute_infer, compute_output])
          expect(one).toEqual({ count: expect.any(Number), ns: expect.any(Number) });
        return success!.count;
      }),
    );
  expect(await counts()).toEqual([0, 0, 0]);
  const texts = ["text_input", "mode"].map((name) => ({ name, shape: [1], datatype: "BYTES", data: [name] }));
  const body = JSON.stringify({
    inputs: [...texts, { name: "sleep_ms", shape: [1], datatype: "INT32", data: [0] }],
  });
  expect((await fetch(`${server.url}/v2/models/ens/infer`, { method: "POST", body })).status).toBe(200);
  expect(await counts()).toEqual([1, 1, 1]);
});

/** Sends one request on a stream. Returns the number of texts and of final responses, and the error. */
function streamed(request: Parameters<typeof encoded>[1]): Promise<{ texts: number; ends: number; error: string }> {
  const seen = { texts: 0, ends: 0, error: "" };
  return new Promise((done) => {
    const call = client.stream();
    call.on("data", (bytes: Buffer) => {
      const { error_message: error = "", infer_response: answer } = decoded("ModelStreamInferResponse", bytes) as {
        error_message?: string;
        infer_response?: { outputs?: unknown[]; parameters?: { triton_final_response?: { bool_param?: boolean } } };
      };
      if (error !== "") seen.error = error;
      if (answer?.outputs?.length) seen.texts++;
      if (answer?.parameters?.triton_final_response?.bool_param) seen.ends++;
    });
    call.on("error", () => {});
    call.on("status", () => done(seen));
    call.write(encoded("ModelInferRequest", request));
    call.end();
  });
}

const TRUE = Buffer.from([1]).toString("base64");

test("genai-perf on the vLLM backend: sampling_parameters with numbers as texts, and an answer of that many tokens", async () => {
  const sampling = JSON.stringify({ max_tokens: "16", min_tokens: "16", ignore_eos: true });
  const seen = await streamed({
    model_name: "vllm_model",
    parameters: { triton_enable_empty_final_response: { bool_param: true } },
    inputs: [
      input("text_input"),
      input("exclude_input_in_output", "BOOL"),
      input("stream", "BOOL"),
      input("sampling_parameters"),
    ],
    raw_input_contents: [bytesText("Tell me of the sea"), TRUE, TRUE, bytesText(sampling)],
  });
  expect(seen).toEqual({ texts: 16, ends: 1, error: "" });
});

test("genai-perf's min_length, which no current ensemble has, is refused with Triton's message", async () => {
  const refused = await client.call("ModelInfer", {
    model_name: "ens",
    inputs: [input("text_input"), input("min_length", "INT32")],
    raw_input_contents: [bytesText("x"), Buffer.alloc(4).toString("base64")],
  });
  expect(refused).toMatchObject({ code: "INVALID_ARGUMENT", details: expect.stringContaining("min_length") });
});

test("genai-perf with triton generate: bodies of generate_stream", async () => {
  const body = JSON.stringify({ text_input: "Tell me", stream: true, max_tokens: 5, ignore_eos: true });
  const answer = await fetch(`${server.url}/v2/models/vllm_model/generate_stream`, { method: "POST", body });
  expect([answer.status, (await answer.text()).match(/^data: /gm)?.length]).toEqual([200, 5]);
});
