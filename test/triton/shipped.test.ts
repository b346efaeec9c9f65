/** Tests the models that `serve --role triton` has without --model-repository, with requests of the clients written for them. */
import { expect, test } from "bun:test";
import { hostTriton } from "./child.ts";

test("the shipped add_sub answers the client of Triton's python_backend example", async () => {
  const { url, stop } = await hostTriton(["--model-control-mode=explicit", "--load-model=add_sub"]);
  const tensors = [Float32Array.of(0.1, 0.5, 0.25, 1), Float32Array.of(0.2, 0.5, 1, 0.125)] as const;
  const parameters = { binary_data_size: 16 };
  const head = JSON.stringify({
    id: "1",
    inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, shape: [4], datatype: "FP32", parameters })),
    outputs: ["OUTPUT0", "OUTPUT1"].map((name) => ({ name, parameters: { binary_data: true } })),
  });
  const headers = { "Inference-Header-Content-Length": `${head.length}` };
  const answer = await fetch(`${url}/v2/models/add_sub/infer`, {
    method: "POST",
    headers,
    body: new Blob([head, ...tensors]),
  });
  expect(answer.status).toBe(200);
  const bytes = await answer.arrayBuffer();
  const from = Number(answer.headers.get("Inference-Header-Content-Length"));
  expect(JSON.parse(new TextDecoder().decode(bytes.slice(0, from)))).toMatchObject({ id: "1", model_name: "add_sub" });
  const results = new Float32Array(bytes.slice(from));
  const [a, b] = tensors;
  expect([...results]).toEqual([...a.map((value, at) => value + b[at]!), ...a.map((value, at) => value - b[at]!)]);
  await stop(0);
});
