/**
 * Checks requests with thousands of answers or with prompts of megabytes: answers are complete and in order, and nothing
 * stays after a disconnect.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";
import { posted, RawSocket, WAYS } from "./raw-socket.ts";

let server: HostedServer;
beforeAll(async () => {
  const room = ["--max-model-len", "131072", "--num-gpu-blocks-override", "65536"];
  const tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"];
  server = await hosted(["--served-model-name", "m", "--timing", "constant:ttft=5ms,itl=1ms", ...room, ...tools]);
});
afterAll(() => server.stop());

const GAUGES = ["understudy_requests_open", "vllm:num_requests_running", "vllm:num_requests_waiting"];
const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const messages = [{ role: "user", content: "What is there to say?" }];
const ids = (count: number) => Array.from({ length: count }, (_, at) => 300 + (at % 500));
const ask = (path: string, body: object) =>
  fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", ...body }),
  });
const eventsIn = (text: string) =>
  text
    .split("\n\n")
    .map((event) => event.slice(event.indexOf("data: ") + 6))
    .filter((data) => data.startsWith("{"))
    .map((data) => JSON.parse(data));

test("a hundred prompts of 20,000 ids get answers in their order", async () => {
  const prompt = Array.from({ length: 100 }, () => ids(20_000));
  const answer = await (await ask(COMPLETIONS, { prompt, max_tokens: 1, ignore_eos: true })).json();
  const { choices, usage } = answer as { choices: { index: number }[]; usage: object };
  expect(choices.map(({ index }) => index)).toEqual(Array.from(prompt.keys()));
  expect(usage).toMatchObject({ prompt_tokens: 2_000_000, completion_tokens: 100 });
});

test("in a stream of 3,000 choices each starts with its role and ends once", async () => {
  const body = { messages, n: 3000, max_tokens: 2, ignore_eos: true, stream: true, seed: 1 };
  const events = eventsIn(await (await ask(CHAT, body)).text());
  const seen = new Map<number, string>();
  for (const { choices } of events) {
    const [{ index, delta, finish_reason: finish }] = choices;
    const kind = "role" in delta ? "role" : finish === null ? "token" : "end";
    seen.set(index, `${seen.get(index) ?? ""} ${kind}`);
  }
  expect(seen.size).toBe(3000);
  // Tokens that arrive while the first events are written are joined with the next event.
  for (const story of seen.values()) expect([" role token end", " role end"]).toContain(story);
});

test.each(["whole", "stream"])(
  "%s: a client that disconnects while its choices are submitted leaves no state",
  async (kind) => {
    const prompt = Array.from({ length: 100 }, () => ids(20_000));
    const bodies = [
      posted(CHAT, { model: "m", messages, n: 8000, max_tokens: 50, stream: kind === "stream" }),
      posted(COMPLETIONS, { model: "m", prompt, max_tokens: 50, stream: kind === "stream" }),
    ];
    for (const [at, way] of [...WAYS, ...WAYS].entries()) {
      const socket = await RawSocket.connect(Number(new URL(server.url).port));
      socket.write(bodies[at % bodies.length]!);
      await Bun.sleep(20 + at * 15);
      socket.leave(way === "half" ? "fin" : way);
      socket.destroy();
    }
    for (const name of GAUGES) await eventually(async () => (await sample(server.url, name)) === 0);
    const { status } = await ask(CHAT, { messages, max_tokens: 1 });
    expect(status).toBe(200);
  },
);

test.each([3, 200])(
  "a streamed response of %d tokens repeats the log probabilities that its events showed",
  async (tokens) => {
    const body = {
      ...{ input: "Hello", max_output_tokens: tokens, ignore_eos: true, top_logprobs: 20, stream: true },
      include: ["message.output_text.logprobs"],
    };
    const events = eventsIn(await (await ask("/v1/responses", body)).text());
    const of = (type: string) => events.filter((event) => event.type === `response.${type}`);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(Array.from(events.keys()));
    const [part] = of("content_part.done");
    const { logprobs, text } = part.part;
    // A token without text has no event.
    expect(logprobs.length).toBeGreaterThan(tokens * 0.9);
    expect(
      of("output_text.delta")
        .map(({ delta }) => delta)
        .join(""),
    ).toBe(text);
    const withoutBytes = ({ bytes, ...entry }: { bytes: number[] }) => {
      expect(bytes).toBeArray();
      return entry;
    };
    type Entry = { bytes: number[]; top_logprobs: { bytes: number[] }[] };
    const shown = (logprobs as Entry[]).map((entry) => ({
      ...withoutBytes(entry),
      top_logprobs: entry.top_logprobs.map(withoutBytes),
    }));
    expect(of("output_text.delta").flatMap((event) => event.logprobs)).toEqual(shown);
    expect(of("output_item.done")[0].item.content[0].logprobs).toEqual(logprobs);
    const last = of("incomplete")[0].response;
    expect(last.output[0].content[0]).toEqual(part.part);
  },
);

test("a streamed response repeats the log probabilities of each text, also after tool calls", async () => {
  const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
  const script = `${"Let us see. ".repeat(30)}${call}${"And now this. ".repeat(30)}${call}`;
  const body = {
    ...{ input: "Hello", max_output_tokens: 1000, top_logprobs: 20, stream: true, understudy: { script } },
    include: ["message.output_text.logprobs"],
    tools: [{ type: "function", name: "f", parameters: { type: "object" } }],
  };
  const events = eventsIn(await (await ask("/v1/responses", body)).text());
  const done = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
  expect(new Set(done.map(({ type }) => type))).toEqual(new Set(["message", "function_call"]));
  const { response } = events.at(-1);
  expect(response.output).toEqual(done);
  for (const [at, { content }] of done.entries()) {
    if (content === undefined) continue;
    const deltas = events.filter(({ type, output_index: of }) => type === "response.output_text.delta" && of === at);
    const tokens = (entries: { token: string }[]) => entries.map(({ token }) => token);
    expect(tokens(content[0].logprobs)).toEqual(deltas.flatMap(({ logprobs }) => tokens(logprobs)));
  }
});

test.each([64, 65, 300, 3000])("if one of %d choices fails at once, all have started before the error", async (n) => {
  const script = { sequences: [{ steps: [], finish: "error" }] };
  const events = async (stream: boolean) =>
    await (await ask(CHAT, { messages, n, max_tokens: 2000, ignore_eos: true, stream, understudy: { script } })).text();
  const streamed = (await events(true)).split("\n\n").slice(0, -1);
  expect(streamed.pop()).toBe("data: [DONE]");
  expect(JSON.parse(streamed.pop()!.slice(6))).toHaveProperty("error");
  const roles = streamed.map((event) => JSON.parse(event.slice(6)).choices[0]).filter(({ delta }) => "role" in delta);
  expect(roles.map(({ index }) => index)).toEqual(Array.from({ length: n }, (_, at) => at));
  expect(JSON.parse(await events(false))).toHaveProperty("error");
  for (const name of GAUGES) await eventually(async () => (await sample(server.url, name)) === 0);
});
