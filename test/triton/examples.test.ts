/** Do the repositories under examples/ load and answer: a classifier in batches of 8 and two versions, speech as an ensemble? */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { hostTriton, type TritonHosted } from "./child.ts";

setDefaultTimeout(30_000);

let server: TritonHosted;
beforeAll(async () => {
  server = await hostTriton([`--model-repository=${new URL("../../examples/triton", import.meta.url).pathname}`]);
});
afterAll(async () => {
  await server.stop();
});

const infer = async (path: string, name: string, shape: readonly number[]) => {
  const data = Array.from({ length: shape.reduce((all, one) => all * one, 1) }, () => 0.5);
  const body = JSON.stringify({ inputs: [{ name, shape, datatype: "FP32", data }] });
  const response = await fetch(`${server.url}/v2/models/${path}/infer`, { method: "POST", body });
  expect(response.status).toBe(200);
  return (await response.json()) as { model_version: string; outputs: { name: string; shape: number[] }[] };
};
const sample = async (series: string) => {
  const page = await (await fetch(`${server.metrics}/metrics`)).text();
  return Number(
    page
      .split("\n")
      .find((line) => line.startsWith(series))
      ?.split(" ")
      .at(-1),
  );
};

test("eight images sent apart make one batch; versions are counted apart", async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => infer("vision/versions/2", "image", [1, 3, 32, 32])),
  );
  expect(answers[0]).toMatchObject({ model_version: "2", outputs: [{ name: "scores", shape: [1, 10] }] });
  expect((await infer("vision/versions/1", "image", [8, 3, 32, 32])).model_version).toBe("1");
  expect(await sample('nv_inference_count{model="vision",version="2"}')).toBe(8);
  expect(await sample('nv_inference_exec_count{model="vision",version="2"}')).toBeLessThan(8);
  expect(await sample('nv_inference_count{model="vision",version="1"}')).toBe(8);
  expect(await sample('nv_inference_exec_count{model="vision",version="1"}')).toBe(1);
});

test("speech passes both steps of its ensemble", async () => {
  const { outputs } = await infer("voice", "audio", [1, 160]);
  expect(outputs).toMatchObject([{ name: "token_ids", shape: [1, 16] }]);
  for (const name of ["voice", "voice_features", "voice_decoder"])
    expect(await sample(`nv_inference_request_success{model="${name}",version="1"}`)).toBe(1);
});
