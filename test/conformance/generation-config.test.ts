/** Tests the sampling defaults of `--override-generation-config`, and that values of a request have priority. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { samplingDefaults } from "../../src/servers/openai/request/sampling-defaults.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually } from "../server.ts";

setDefaultTimeout(30_000);

const defaults = { temperature: 0.5, top_p: 0.9, top_k: 40, min_p: 0.05, repetition_penalty: 1.1, max_new_tokens: 7 };
const start = (config: object) =>
  hosted([
    ...["--timing", "none", "--served-model-name", "m", "--enable-log-requests"],
    ...["--override-generation-config", JSON.stringify(config)],
  ]);

const PATHS = {
  "/v1/completions": { prompt: "x" },
  "/v1/chat/completions": { messages: [{ role: "user", content: "x" }] },
};
async function post(server: HostedServer, path: keyof typeof PATHS, body: object): Promise<[number, string]> {
  const response = await fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...PATHS[path], ...body }),
  });
  return [response.status, await response.text()];
}

/** Returns the parameters of the request with this id from the server's log. */
async function loggedOf(server: HostedServer, id: string): Promise<string> {
  await eventually(() => server.output().includes(id));
  return server
    .output()
    .split("\n")
    .find((line) => line.includes("Received request") && line.includes(id))!;
}

test("fields that are absent or null get these defaults, and other values of a request have priority", async () => {
  const server = await start(defaults);
  for (const path of Object.keys(PATHS) as (keyof typeof PATHS)[]) {
    const nulls = {
      temperature: null,
      top_p: null,
      top_k: null,
      min_p: null,
      repetition_penalty: null,
      max_tokens: null,
    };
    for (const [name, body] of Object.entries({ silent: { max_tokens: 100 }, nulls })) {
      const id = `${name}${path.length}`;
      const [status, text] = await post(server, path, { ...body, ignore_eos: true, request_id: id });
      expect(status).toBe(200);
      expect(JSON.parse(text).usage.completion_tokens).toBe(7);
      expect(await loggedOf(server, id)).toContain(
        "repetition_penalty=1.1, temperature=0.5, top_p=0.9, top_k=40, min_p=0.05",
      );
    }
    const values = { temperature: 0.7, top_p: 0.8, top_k: 0, min_p: 0, repetition_penalty: 1, max_tokens: 3 };
    const id = `own${path.length}`;
    const [, text] = await post(server, path, { ...values, ignore_eos: true, request_id: id });
    expect(JSON.parse(text).usage.completion_tokens).toBe(3);
    expect(await loggedOf(server, id)).toContain(
      "repetition_penalty=1.0, temperature=0.7, top_p=0.8, top_k=0, min_p=0.0",
    );
  }
  await server.stop();
});

test("with temperature 0 an equal prompt has an equal answer, and n above 1 is refused", async () => {
  const server = await start({ temperature: 0 });
  const textOf = async () => JSON.parse((await post(server, "/v1/completions", { max_tokens: 20 }))[1]).choices[0].text;
  expect(await textOf()).toBe(await textOf());
  const [status, text] = await post(server, "/v1/completions", { n: 2 });
  expect([status, JSON.parse(text).error.message]).toEqual([400, "n must be 1 when using greedy sampling, got 2."]);
  expect((await post(server, "/v1/completions", { n: 2, temperature: 1 }))[0]).toBe(200);
  await server.stop();
});

test.each([
  ["temperature", 3, "temperature must be in [0, 2], got 3.0."],
  ["top_p", 2, "top_p must be in (0, 1], got 2.0."],
  ["top_k", -2, "top_k must be 0 (disable), or at least 1, got -2."],
  ["min_p", 2, "min_p must be in [0, 1], got 2.0."],
  ["repetition_penalty", 0, "repetition_penalty must be greater than zero, got 0.0."],
])("an invalid default is refused with each request that lacks the field: %s %d", async (name, value, wanted) => {
  const server = await start({ [name]: value });
  const [status, text] = await post(server, "/v1/completions", { max_tokens: 1 });
  expect([status, text.includes(wanted)]).toEqual([400, true]);
  expect((await post(server, "/v1/completions", { max_tokens: 1, [name]: 1 }))[0]).toBe(200);
  await server.stop();
});

test("the flag has priority over the model's file, null resets it, and other fields and types are ignored", () => {
  const model = { temperature: 0.6, top_p: 0.9, do_sample: true, top_k: "40", eos_token_id: [1, 2] };
  expect(samplingDefaults(model, { top_p: null, min_p: 0.1 })).toEqual({ temperature: 0.6, minP: 0.1 });
  expect(samplingDefaults(undefined, undefined)).toEqual({});
});

test.each(['{"temperature": "hot"}', '{"top_k": 1.5}', '{"max_new_tokens": [1]}', "[]", "x"])(
  "%s is refused",
  (text) => {
    const resolved = resolveServeConfig(["--override-generation-config", text], {}, () => "");
    expect("error" in resolved && resolved.error).toStartWith("--override-generation-config: takes a JSON object, as ");
  },
);
