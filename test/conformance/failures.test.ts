/**
 * Checks that the ordered share of requests fails, with the errors of the real server, and the same requests for the same
 * seed.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { FAILURE_TYPES } from "../../src/faults/failure-types.ts";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(30_000);

const FLAGS = "--timing none --served-model-name m --max-model-len 100 --overload-status 429 --admin-key key".split(
  " ",
);
let server: HostedServer;
beforeAll(async () => {
  server = await hosted([...FLAGS, "--seed", "5", "--failure-injection-rate", "50"]);
});
afterAll(() => server.stop());

const JSON_TYPE = { "content-type": "application/json" };
const ask = (url: string, path = "/v1/completions", headers: Record<string, string> = {}) =>
  fetch(url + path, {
    method: "POST",
    headers: { ...JSON_TYPE, ...headers },
    body: JSON.stringify(
      path === "/v1/completions"
        ? { model: "m", prompt: "Hi", max_tokens: 1 }
        : { model: "m", messages: [{ role: "user", content: "Hi" }], max_tokens: 1 },
    ),
  });
async function statuses(url: string, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i++) found.push((await ask(url)).status);
  return found;
}
const change = (changes: object) =>
  fetch(`${server.url}/admin/config`, {
    method: "POST",
    headers: { authorization: "Bearer key" },
    body: JSON.stringify(changes),
  });

test("about the ordered share fails, in all six ways, and equal servers fail the same requests", async () => {
  const twin = await hosted([...FLAGS, "--seed", "5", "--failure-injection-rate", "50"]);
  const [first, second] = await Promise.all([statuses(server.url, 120), statuses(twin.url, 120)]);
  await twin.stop();
  expect(first).toEqual(second);
  expect(first.filter((status) => status === 200).length).toBeWithin(40, 80);
  expect([...new Set(first)].toSorted()).toEqual([200, 400, 401, 404, 429, 503]);
});

const BODIES: Readonly<Record<(typeof FAILURE_TYPES)[number], readonly [number, RegExp]>> = {
  rate_limit: [429, /"type":"Too Many Requests","param":null,"code":429/],
  invalid_api_key: [401, /^\{"error":"Unauthorized"\}$/],
  context_length: [
    400,
    /maximum context length is 100 tokens\. However, your prompt contains at least 101 input tokens/,
  ],
  server_error: [503, /The engine is currently busy.*"type":"Service Unavailable","param":null,"code":503/],
  invalid_request: [400, /'type': 'missing', 'loc': 'body', 'msg': 'Field required'/],
  model_not_found: [404, /The model `m-nonexistent` does not exist\. Valid aliases: m\./],
};

test.each(FAILURE_TYPES)("%s can be set while the server runs", async (type) => {
  expect((await change({ "failure-injection-rate": 100, "failure-types": [type] })).status).toBe(200);
  const [status, body] = BODIES[type];
  const answers = await Promise.all(["/v1/completions", "/v1/chat/completions"].map((path) => ask(server.url, path)));
  expect(answers.map((answer) => answer.status)).toEqual([status, status]);
  for (const answer of answers) expect(await answer.text()).toMatch(body);
});

test("other dialects return the failure in their form", async () => {
  await change({ failure_injection_rate: 100, failure_types: "model_not_found" });
  const answer = (await (await ask(server.url, "/v1/messages")).json()) as { type: string; error: { type: string } };
  expect(answer).toMatchObject({ type: "error", error: { type: "not_found_error" } });
});

test("without a rate nothing fails, and a header does not change that", async () => {
  await change({ "failure-injection-rate": null });
  const asked = Array.from({ length: 20 }, () => ask(server.url, "/v1/completions", { "x-return-error": "500" }));
  expect((await Promise.all(asked)).every(({ status }) => status === 200)).toBe(true);
});
