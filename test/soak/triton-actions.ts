/** Lists the actions of clients of the Triton role in a soak run, over HTTP and gRPC. */
import { encoded, type TritonClient } from "../triton/grpc-client.ts";
import type { WeightedAction } from "./actions.ts";
import type { SoakClient } from "./client.ts";
import { type Draw, prompt } from "./draw.ts";

const LLM_MODELS = ["ensemble", "vllm_model", "tensorrt_llm_bls"];
const ADDENDS = ["INPUT0", "INPUT1"];
const BAD_BODIES = ["{", '{"inputs":1}', '{"inputs":[]}'];
const LEAVE_AFTER_MS = 100;

export function tritonActions(client: SoakClient, grpc: TritonClient): WeightedAction[] {
  const numbers = (draw: Draw) => Array.from({ length: 4 }, () => draw.below(1000));
  const input = { datatype: "FP32", shape: [4] };
  const json = (draw: Draw) => ({ inputs: ADDENDS.map((name) => ({ name, ...input, data: numbers(draw) })) });
  const message = (draw: Draw) => ({
    model_name: "add_sub",
    inputs: ADDENDS.map((name) => ({ name, ...input, contents: { fp32_contents: numbers(draw) } })),
  });
  const generate = (draw: Draw, more: object = {}) => ({
    ...{ text_input: prompt(draw), max_tokens: 1 + draw.below(60), ...more },
  });
  const path = (draw: Draw, end: string) => `/v2/models/${draw.of(LLM_MODELS)}/${end}`;
  const stream = { stream: true };
  const post = async (to: string, body: unknown, statuses?: readonly number[]) =>
    void (await client.post(to, body, statuses));
  const call = async (method: string, request: { readonly [key: string]: unknown }) => {
    const { code, details } = await grpc.call(method, request);
    if (code !== undefined) throw new Error(`${method}: ${code}: ${details}`);
  };
  return [
    { weight: 25, name: "infer", run: (draw) => post("/v2/models/add_sub/infer", json(draw)) },
    { weight: 20, name: "gRPC infer", run: (draw) => call("ModelInfer", message(draw)) },
    { weight: 10, name: "generate", run: (draw) => post(path(draw, "generate"), generate(draw)) },
    { weight: 15, name: "stream", run: (draw) => post(path(draw, "generate_stream"), generate(draw, stream)) },
    { weight: 4, name: "gRPC stream", run: (draw) => grpcStream(grpc, prompt(draw), draw.below(3) === 0) },
    {
      weight: 6,
      name: "leave a stream",
      run: (draw) =>
        client.leave(path(draw, "generate_stream"), generate(draw, { ...stream, max_tokens: 300 }), draw.below(400)),
    },
    { weight: 3, name: "bad body", run: (draw) => post("/v2/models/add_sub/infer", draw.of(BAD_BODIES), [400, 500]) },
    { weight: 2, name: "unknown model", run: () => post("/v2/models/nothing/infer", { inputs: [] }, [400, 404]) },
    { weight: 2, name: "statistics", run: async () => void (await client.get("/v2/models/stats")) },
    { weight: 2, name: "gRPC metadata", run: () => call("ModelMetadata", { name: "add_sub" }) },
    { weight: 1, name: "index", run: () => post("/v2/repository/index", {}) },
  ];
}

/** Makes one call of ModelStreamInfer. Cancels it after 100 ms if `leaves`. */
function grpcStream(grpc: TritonClient, input: string, leaves: boolean): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const call = grpc.stream();
  call.on("data", () => {});
  call.on("error", (error: Error) => (leaves ? resolve() : reject(error)));
  call.on("end", () => resolve());
  const texts = { bytes_contents: [Buffer.from(input).toString("base64")] };
  call.write(
    encoded("ModelInferRequest", {
      model_name: "vllm_model",
      inputs: [
        { name: "text_input", datatype: "BYTES", shape: [1], contents: texts },
        { name: "stream", datatype: "BOOL", shape: [1], contents: { bool_contents: [true] } },
      ],
    }),
  );
  if (leaves) setTimeout(() => call.cancel(), LEAVE_AFTER_MS);
  else call.end();
  return promise;
}
