/**
 * Tests our engine behind the unmodified front end `vllm-rs`. The whole run (`npx bun run test fronts`) fetches the program
 * once. The sample runs if it is there.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { leavesOut, sized } from "../size.ts";
import { FrontWithEngine, fetchProgram, isHere } from "./vllm-rs.ts";

setDefaultTimeout(60_000);

const isWhole = sized("fronts", { sample: false, whole: true }) && !leavesOut("vllm-rs");
if (isWhole && !isHere()) await fetchProgram();
if (!isHere()) console.log("vllm-rs is not here, so that its tests are left out; npx bun run test fronts fetches it");

const CHAT = {
  model: "golden",
  messages: [{ role: "user", content: "hello" }],
  stream: true,
  stream_options: { include_usage: true },
};

/** Events of a stream. The last one is null for `[DONE]`. */
interface ChatEvent {
  readonly choices: readonly { readonly delta: { readonly content?: string }; readonly finish_reason?: string }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number };
}

describe.skipIf(!isHere())("behind vllm-rs", () => {
  let front: FrontWithEngine;
  beforeAll(async () => {
    front = await FrontWithEngine.start("--timing=constant:ttft=20ms,itl=5ms");
  });
  afterAll(() => front.stop());

  const post = (path: string, body: object, signal?: AbortSignal) =>
    fetch(front.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal ? { signal } : {}),
    });
  const eventsOf = async (answer: Response): Promise<readonly (ChatEvent | null)[]> =>
    [...(await answer.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) =>
      data === "[DONE]" ? null : JSON.parse(data!),
    );

  test("a chat is streamed with the front end's bytes, and the usage is ours", async () => {
    const events = await eventsOf(await post("/v1/chat/completions", { ...CHAT, max_tokens: 12 }));
    expect(events.at(-1)).toBeNull();
    const chunks = events.slice(0, -1) as ChatEvent[];
    const text = chunks.map(({ choices: [choice] }) => choice?.delta.content ?? "").join("");
    expect(text.trim().split(/\s+/).length).toBeGreaterThan(3);
    expect(chunks.flatMap(({ choices: [choice] }) => choice?.finish_reason ?? [])).toEqual(["length"]);
    expect(chunks.at(-1)!.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 12 });
  });

  test("an answer that ends by itself has the reason stop, and the same seed gives the same text", async () => {
    const answers = [];
    for (let at = 0; at < 2; at++) {
      const answer = await post("/v1/completions", { model: "golden", prompt: "hello", seed: 7, max_tokens: 900 });
      answers.push(((await answer.json()) as { choices: readonly object[] }).choices[0]);
    }
    expect(answers[0]).toMatchObject({ finish_reason: "stop" });
    expect(answers[1]).toEqual(answers[0]!);
  });

  test("the front end's page has the engine's times and counts", async () => {
    await eventsOf(await post("/v1/chat/completions", { ...CHAT, max_tokens: 21, ignore_eos: true }));
    const [theirs, ours] = await Promise.all(
      [front.url, front.engine.url].map(async (url) => {
        const page = await (await fetch(`${url}/metrics`)).text();
        return (name: string) => Number(new RegExp(`^vllm:${name}(?:\\{.*\\})? (\\S+)$`, "m").exec(page)?.[1]);
      }),
    );
    const same = ["prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total"];
    const timed = ["request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"];
    for (const name of [...same, ...timed.map((family) => `${family}_count`)])
      expect([name, theirs!(name)]).toEqual([name, ours!(name)]);
    expect(theirs!("num_requests_running")).toBe(0);
    const sum = "inter_token_latency_seconds_sum";
    expect(theirs!(sum)).toBeCloseTo(ours!(sum), 6);
  });

  test("a client that leaves ends its request in the engine", async () => {
    const leaving = new AbortController();
    const answer = await post("/v1/chat/completions", { ...CHAT, max_tokens: 900, ignore_eos: true }, leaving.signal);
    await answer.body!.getReader().read();
    leaving.abort();
    const running = async () =>
      /^vllm:num_requests_running(?:\{.*\})? (\S+)$/m.exec(
        await (await fetch(`${front.engine.url}/metrics`)).text(),
      )![1];
    while ((await running()) !== "0.0") await Bun.sleep(10);
  });

  test("many requests at once are answered", async () => {
    const all = await Promise.all(
      Array.from({ length: 40 }, (_, at) => post("/v1/chat/completions", { ...CHAT, max_tokens: 5 + at })),
    );
    const usages = await Promise.all(
      all.map(async (answer) => (await eventsOf(answer)).at(-2)!.usage!.completion_tokens),
    );
    for (const [at, tokens] of usages.entries()) expect(tokens).toBeLessThanOrEqual(5 + at);
    expect(usages[0]).toBe(5);
  });
});
