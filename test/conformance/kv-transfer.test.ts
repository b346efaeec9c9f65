/**
 * Tests `--kv-transfer-time`: requests whose prompt or answer belongs to another server return the right parameters and wait
 * the right time.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(30_000);

const CHAT = "/v1/chat/completions";
const COMPLETION = "/v1/completions";
const TRUTH = "x-understudy-truth";
const DECODE = { kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, remote_host: null } };
const PREFILL = { kv_transfer_params: { do_remote_prefill: true } };
const messages = [{ role: "user", content: "One two" }];

let server: HostedServer;
beforeAll(async () => {
  const flags = "--model m --timing constant:ttft=400ms,itl=1ms --kv-transfer-time base=20ms,token=1ms,step=1ms";
  server = await hosted([...flags.split(" "), "--cache-hit-threshold", "0"]);
});
afterAll(() => server.stop());

const post = (path: string, body: object, headers: Record<string, string> = {}, url = server.url) =>
  fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "m", max_tokens: 1, ...body }),
  });

interface Body {
  choices: { finish_reason: string }[];
  usage: { completion_tokens: number };
  kv_transfer_params: Record<string, unknown> | null;
}
const read = async (answer: Response) => (await answer.json()) as Body;

test.each([
  ["chat", CHAT, { messages }],
  ["completions", COMPLETION, { prompt: "One two" }],
])("%s: an answer that another server continues has the parameters for it", async (_, path, body) => {
  const answer = await read(await post(path, { ...body, ...DECODE, n: 2 }));
  expect(answer.choices.map(({ finish_reason }) => finish_reason)).toEqual(["remote_decode", "remote_decode"]);
  expect(answer.usage.completion_tokens).toBe(2);
  const { kv_transfer_params: params } = answer;
  expect(params).toMatchObject({ do_remote_decode: false, do_remote_prefill: true, tp_size: 1 });
  // The returned parameters are sent to the other server.
  const next = await read(await post(path, { ...body, kv_transfer_params: params }));
  expect(next.choices[0]!.finish_reason).toBe("length");
  expect(next.kv_transfer_params).toBeNull();
});

test("a transfer cannot be streamed", async () => {
  const answer = await post(CHAT, { messages, stream: true, ...DECODE });
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ error: { param: "stream" } });
  expect((await post(CHAT, { messages, stream: true, ...PREFILL })).status).toBe(200);
});

test("a prompt that is cached too little is reported first", async () => {
  const answer = await read(await post(COMPLETION, { prompt: "Nine", cache_hit_threshold: 1, ...DECODE }));
  expect(answer.choices[0]!.finish_reason).toBe("cache_threshold");
  expect(answer.kv_transfer_params).toMatchObject({ do_remote_prefill: true });
});

test("a prompt from another server takes its transfer time instead of its prefill time", async () => {
  const onceUs = async (tokens: number, fields: object) => {
    const prompt = Array.from({ length: tokens }, (_, i) => 300 + i);
    const summary = (await post(COMPLETION, { prompt, ...fields }, { [TRUTH]: "summary" })).headers.get(TRUTH)!;
    return (JSON.parse(summary)[0] as { ttftUs: { due: number } }).ttftUs.due;
  };
  // Take the minimum, because a host that stalls moves the engine's time.
  const dueUs = async (tokens: number, fields: object) =>
    Math.min(await onceUs(tokens, fields), await onceUs(tokens, fields), await onceUs(tokens, fields));
  expect(await dueUs(7, {})).toBe(400_000);
  expect(await dueUs(7, PREFILL)).toBe(27_000);
  expect(await dueUs(60, PREFILL)).toBe(80_000);
  expect(await dueUs(7, { kv_transfer_params: { do_remote_prefill: "true" } })).toBe(400_000);
});

test("without the option the field has no effect", async () => {
  const plain = await hosted("--model m --timing none".split(" "));
  const answer = await read(await post(COMPLETION, { prompt: "One two", ...DECODE }, {}, plain.url));
  expect(answer.choices[0]!.finish_reason).toBe("length");
  expect(answer.kv_transfer_params).toBeNull();
  expect((await post(CHAT, { messages, stream: true, ...DECODE }, {}, plain.url)).status).toBe(200);
  await plain.stop();
});
