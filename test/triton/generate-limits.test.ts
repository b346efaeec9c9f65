/**
 * Tests that /generate refuses very many words or parameters, and reads large bodies in slices with the same results as small
 * ones.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { hostTriton, type TritonHosted } from "./child.ts";

let server: TritonHosted;
beforeAll(async () => {
  server = await hostTriton(["--allow-client-shm=true"]);
});
afterAll(() => server.stop());

async function generate(model: string, fields: object): Promise<[number, string]> {
  const body = JSON.stringify({ text_input: "a", max_tokens: 5, ...fields });
  const answer = await fetch(`${server.url}/v2/models/${model}/generate`, { method: "POST", body });
  const text = await answer.text();
  return [answer.status, answer.ok ? "" : JSON.parse(text).error];
}

const words = (count: number) => Array.from({ length: count }, (_, at) => `word ${at}`);

test("4,096 words in a list are accepted, more are refused", async () => {
  for (const model of ["ensemble", "tensorrt_llm_bls"])
    for (const list of ["bad_words", "stop_words"]) {
      expect(await generate(model, { [list]: words(4096) })).toEqual([200, ""]);
      for (const count of [4097, 50_000]) {
        const [status, error] = await generate(model, { [list]: words(count) });
        expect([status, error]).toEqual([400, expect.stringContaining(`has ${count} words: a stand-in takes 4096`)]);
      }
    }
}, 60_000);

test("65,536 bytes of words are accepted, more are refused", async () => {
  const lists = [
    ["ensemble", "bad_words"],
    ["ensemble", "stop_words"],
    ["tensorrt_llm_bls", "stop_words"],
    ["llmapi", "sampling_param_stop"],
  ] as const;
  for (const [model, list] of lists) {
    expect(await generate(model, { [list]: ["x y ".repeat(16_384)] })).toEqual([200, ""]);
    const [status, error] = await generate(model, { [list]: ["x y ".repeat(16_383), "z".repeat(5)] });
    expect([status, error]).toEqual([400, expect.stringContaining("has words of 65537 bytes: a stand-in takes 65536")]);
  }
}, 60_000);

test("262,144 characters of sampling parameters are accepted, more are refused", async () => {
  // Blanks before JSON have no meaning.
  const said = (characters: number) => ({ sampling_parameters: `${" ".repeat(characters - 2)}{}` });
  expect(await generate("vllm_model", said(262_144))).toEqual([200, ""]);
  const [status, error] = await generate("vllm_model", said(262_145));
  expect([status, error]).toEqual([400, expect.stringContaining("have 262145 characters: a stand-in takes 262144")]);
  const stops = await generate("vllm_model", { sampling_parameters: JSON.stringify({ stop: words(4097) }) });
  expect(stops[0]).toBe(400);
}, 60_000);

test("80,000 stop ids are accepted, whatever their values", async () => {
  for (const id of [7, -1, 2 ** 40]) {
    const parameters = JSON.stringify({ stop_token_ids: Array(id > 9 ? 10_000 : 80_000).fill(id), max_tokens: 3 });
    expect(await generate("vllm_model", { sampling_parameters: parameters })).toEqual([200, ""]);
  }
}, 60_000);

/** Returns the error of a POST, or "" if it succeeds. */
async function errorOf(path: string, body: object | string): Promise<string> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const answer = await fetch(server.url + path, { method: "POST", body: text });
  const said = await answer.text();
  return answer.ok ? "" : JSON.parse(said).error;
}

test("bodies of settings, shared memory and the index have at most 65,536 bytes", async () => {
  const paths = [
    ...["/v2/trace/setting", "/v2/models/echo/trace/setting", "/v2/logging", "/v2/repository/index"],
    ...["/v2/systemsharedmemory/region/a/register", "/v2/cudasharedmemory/region/a/register"],
  ];
  for (const path of paths) {
    expect(await errorOf(path, `${" ".repeat(65_534)}{}`)).not.toContain("a stand-in takes");
    expect(await errorOf(path, `${" ".repeat(65_535)}{}`)).toBe(
      "request JSON size of 65537 bytes: a stand-in takes 65536 here",
    );
  }
}, 60_000);

const tensor = (name: string) => ({ name, datatype: "FP32", shape: [4], data: [1, 2, 3, 4] });

test("10,000 inputs, outputs, parameters and dimensions of /infer are accepted, more are refused", async () => {
  const inputs = [tensor("INPUT0"), tensor("INPUT1")];
  const outputs = (count: number) => ({ inputs, outputs: new Array(count).fill({ name: "OUTPUT0" }) });
  const parameters = (count: number) => ({
    inputs,
    parameters: Object.fromEntries(words(count).map((one) => [one, 1])),
  });
  for (const body of [outputs, parameters]) expect(await errorOf("/v2/models/add_sub/infer", body(10_000))).toBe("");
  const dimensions = { inputs: [{ ...tensor("INPUT0"), shape: new Array(10_001).fill(1) }] };
  const beyond = {
    outputs: outputs(10_001),
    parameters: parameters(10_001),
    dimensions,
    inputs: { inputs: new Array(10_001).fill(0) },
  };
  for (const [what, body] of Object.entries(beyond))
    expect(await errorOf("/v2/models/add_sub/infer", body)).toContain(
      `more than 10000 ${what}: a stand-in takes no more`,
    );
}, 60_000);

test("an id and the name of a tensor have at most 65,536 bytes", async () => {
  const inputs = [tensor("INPUT0"), tensor("INPUT1")];
  const [most, more] = ["x".repeat(65_536), "x".repeat(65_537)];
  expect(await errorOf("/v2/models/add_sub/infer", { id: most, inputs })).toBe("");
  expect((await generate("echo", { id: most }))[0]).toBe(200);
  const refused = (what: string) => `'${what}' has 65537 bytes: a stand-in takes 65536`;
  expect(await errorOf("/v2/models/add_sub/infer", { id: more, inputs })).toBe(refused("id"));
  expect(await errorOf("/v2/models/add_sub/infer", { inputs: [tensor(more)] })).toBe(refused("name"));
  expect(await errorOf("/v2/models/add_sub/infer", { inputs, outputs: [{ name: more }] })).toBe(refused("name"));
  expect((await generate("echo", { id: more }))[1]).toBe(refused("id"));
}, 60_000);

test("10,000 parameters are accepted, more are refused", async () => {
  // `max_tokens` is not an input of `echo`, so it counts as a parameter too.
  const many = (count: number) => Object.fromEntries(words(count - 1).map((word) => [word, 1]));
  expect((await generate("echo", many(10_000)))[0]).toBe(200);
  const refused = [400, "more than 10000 parameters: a stand-in takes no more"];
  expect(await generate("echo", many(10_001))).toEqual([refused[0], refused[1]] as never);
  expect((await generate("echo", { parameters: many(10_002) }))[1]).toBe(
    "Converting keyword: 'parameters': more than 10000 parameters: a stand-in takes no more",
  );
}, 60_000);

test("a prompt of 2.4 million tokens is refused because of its length", async () => {
  const [status, error] = await generate("ensemble", { text_input: "word ".repeat(2_400_000) });
  expect([status, error]).toEqual([
    400,
    expect.stringMatching(/Prompt length \(24\d{5}\) exceeds maximum input length/),
  ]);
}, 60_000);

test("a large body gets the same errors for wrong texts, shapes and names as a small one", async () => {
  const padding = { text_input: "b".repeat(70_000) };
  for (const wrong of [
    { sleep_ms: ["x"] },
    { sleep_ms: [1, 2] },
    { mode: [1] },
    { parameters: 3 },
    { parameters: { sleep_ms: "x" } },
  ]) {
    const [small, large] = [await generate("echo", wrong), await generate("echo", { ...wrong, ...padding })];
    expect(large).toEqual(small);
    expect(small[0]).toBeGreaterThanOrEqual(400);
  }
  expect((await generate("echo", padding))[0]).toBe(200);
}, 60_000);
