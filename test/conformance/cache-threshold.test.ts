/** Tests `--cache-hit-threshold`: a request whose prompt is cached too little ends without a token. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";

setDefaultTimeout(30_000);

const CHAT = "/v1/chat/completions";
const COMPLETION = "/v1/completions";
const HEADER = "x-cache-threshold-finish-reason";

let server: HostedServer;
let fresh = 0;

const post = (path: string, body: object, headers: Record<string, string> = {}, url = server.url) =>
  fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "m", max_tokens: 3, ignore_eos: true, ...body }),
  });

/** Returns 64 ids, four blocks, with a new first id, so that no earlier prompt has the same beginning. */
const unseen = () => Array.from({ length: 64 }, (_, i) => (i === 0 ? 500 + fresh++ : 300 + i));
/** Returns a prompt that differs from all earlier ones, for routes that accept only text. */
const words = () => `${fresh++} ${"over and over ".repeat(30)}`;

interface Body {
  choices: { finish_reason: string | null; stop_reason: unknown; text?: string; message?: { content: string } }[];
  usage: { prompt_tokens: number; completion_tokens: number };
}
const read = async (answer: Response) => (await answer.json()) as Body;
const reasons = async (answer: Response) => (await read(answer)).choices.map(({ finish_reason }) => finish_reason);

/** Returns the events of a stream without `[DONE]`. */
async function events(answer: Response) {
  const data = (await answer.text()).split("\n\n").filter(Boolean);
  expect(data.at(-1)).toBe("data: [DONE]");
  return data.slice(0, -1).map((event) => JSON.parse(event.slice("data: ".length)));
}

describe("--cache-hit-threshold 0.5", () => {
  beforeAll(async () => {
    server = await hosted("--model m --timing none --cache-hit-threshold 0.5".split(" "));
  });
  afterAll(() => server.stop());

  test("a prompt that is not cached ends without a token, and a repeated one is answered", async () => {
    const prompt = unseen();
    const { choices, usage } = await read(await post(COMPLETION, { prompt }));
    expect(choices).toMatchObject([{ finish_reason: "cache_threshold", stop_reason: null, text: "" }]);
    expect(usage).toMatchObject({ prompt_tokens: 64, completion_tokens: 0 });
    expect((await read(await post(COMPLETION, { prompt }))).usage.completion_tokens).toBe(3);
  });

  test("the last block of a cached prompt is always computed, so its share is below 1", async () => {
    const prompt = unseen();
    const asked = (share: number) => post(COMPLETION, { prompt, cache_hit_threshold: share });
    await asked(0);
    expect(await reasons(await asked(0.75))).toEqual(["length"]);
    expect(await reasons(await asked(0.76))).toEqual(["cache_threshold"]);
  });

  test.each([
    ["0 lets all pass", 0, "length"],
    ["1 nothing", 1, "cache_threshold"],
    ["above 1 it says nothing", 1.5, "cache_threshold"],
    ["below 0 it says nothing", -1, "cache_threshold"],
    ["null says nothing", null, "cache_threshold"],
  ])("the field overrides the option: %s", async (_, cache_hit_threshold, reason) => {
    expect(await reasons(await post(COMPLETION, { prompt: unseen(), cache_hit_threshold }))).toEqual([reason]);
    const messages = [{ role: "user", content: words() }];
    expect(await reasons(await post(CHAT, { messages, cache_hit_threshold }))).toEqual([reason]);
  });

  test("a field that is not a number is refused", async () => {
    const answer = await post(COMPLETION, { prompt: unseen(), cache_hit_threshold: "0.5" });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: { param: "cache_hit_threshold" } });
  });

  test.each(["true", "1", "T"])("the header %s also ends cached requests", async (value) => {
    const prompt = unseen();
    await post(COMPLETION, { prompt });
    const answer = await post(COMPLETION, { prompt, cache_hit_threshold: 0 }, { [HEADER]: value });
    expect(await reasons(answer)).toEqual(["cache_threshold"]);
  });

  test.each(["false", "yes", ""])("the header %p has no effect", async (value) => {
    const answer = await post(COMPLETION, { prompt: unseen(), cache_hit_threshold: 0 }, { [HEADER]: value });
    expect(await reasons(answer)).toEqual(["length"]);
  });

  test("streams have the finish reason in their last chunk", async () => {
    const messages = [{ role: "user", content: words() }];
    const chat = await events(await post(CHAT, { messages, stream: true, stream_options: { include_usage: true } }));
    expect(chat.map(({ choices }) => choices[0])).toMatchObject([
      { delta: { role: "assistant", content: "" }, finish_reason: null },
      { delta: { content: "" }, finish_reason: "cache_threshold", stop_reason: null },
      undefined as never,
    ]);
    expect(chat.at(-1).usage.completion_tokens).toBe(0);
    const completion = await events(await post(COMPLETION, { prompt: unseen(), stream: true }));
    expect(completion.map(({ choices }) => choices)).toMatchObject([
      [{ index: 0, text: "", finish_reason: "cache_threshold", stop_reason: null }],
    ]);
  });

  test("each prompt is checked separately, also with scripts and observed answers", async () => {
    const cached = unseen();
    await post(COMPLETION, { prompt: cached });
    expect(await reasons(await post(COMPLETION, { prompt: [cached, unseen()] }))).toEqual([
      "length",
      "cache_threshold",
    ]);
    const watch = { max_pattern_size: 2, min_count: 2 };
    expect(await reasons(await post(COMPLETION, { prompt: unseen(), repetition_detection: watch }))).toEqual([
      "cache_threshold",
    ]);
    const body = await read(await post(COMPLETION, { prompt: unseen(), understudy: { script: "Hello there" } }));
    expect(body.choices).toMatchObject([{ finish_reason: "cache_threshold", text: "" }]);
    const sequences = [{ steps: [[5], [6]] }, { steps: [[5], [6]] }];
    const script = { burst: true, sequences };
    const both = { prompt: [cached, unseen()], understudy: { script }, ignore_eos: false };
    expect(await reasons(await post(COMPLETION, both))).toEqual(["stop", "cache_threshold"]);
  });

  test("dialects without this finish reason report a cut answer", async () => {
    const messages = [{ role: "user", content: words() }];
    const message = (await (await post("/v1/messages", { messages })).json()) as object;
    expect(message).toMatchObject({ stop_reason: "max_tokens", usage: { output_tokens: 0 } });
    const response = (await (await post("/v1/responses", { input: words() })).json()) as object;
    expect(response).toMatchObject({ status: "incomplete", usage: { output_tokens: 0 } });
    const streamed = await (
      await post("/v1/messages", { messages: [{ role: "user", content: words() }], stream: true })
    ).text();
    expect(streamed).toContain('"stop_reason":"max_tokens"');
    expect(streamed).toContain("event: message_stop");
  });

  test("such answers count as length with no token, and leave no state", async () => {
    const of = (name: string) => sample(server.url, `vllm:${name}`);
    const lengths = 'request_success_total{engine="0",finished_reason="length",model_name="m"}';
    const before = [await of(lengths), await of("request_generation_tokens_sum{")];
    await read(await post(COMPLETION, { prompt: unseen() }));
    expect([await of(lengths), await of("request_generation_tokens_sum{")]).toEqual([before[0]! + 1, before[1]!]);
    await eventually(async () => (await of("num_requests_running{")) === 0);
  });
});

test("without the option the field and the header are ignored", async () => {
  const plain = await hosted("--model m --timing none".split(" "));
  const body = { prompt: unseen(), cache_hit_threshold: "much" };
  expect(await reasons(await post(COMPLETION, body, { [HEADER]: "true" }, plain.url))).toEqual(["length"]);
  await plain.stop();
});

test("without a prefix cache only the header counts", async () => {
  const flags = "--model m --timing none --no-enable-prefix-caching --cache-hit-threshold 0.5";
  const plain = await hosted(flags.split(" "));
  const ask = (headers: Record<string, string>) => post(COMPLETION, { prompt: unseen() }, headers, plain.url);
  expect(await reasons(await ask({}))).toEqual(["length"]);
  expect(await reasons(await ask({ [HEADER]: "true" }))).toEqual(["cache_threshold"]);
  await plain.stop();
});
