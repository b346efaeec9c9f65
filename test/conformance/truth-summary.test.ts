/** Tests answers that contain a summary of their truth on request, in a place that clients ignore. */
import { afterAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import type { RequestLine } from "../../src/truth/schema.ts";
import { hosted } from "../hosted.ts";

interface Summary {
  readonly id: string;
  readonly reason: string;
  readonly arrivalUs: number;
  readonly queueUs: number;
  readonly ttftUs: { due: number; written: number };
  readonly itlUs: Record<"due" | "written", { mean: number; max: number } | null>;
  readonly e2eUs: { due: number; written: number };
  readonly lateUs: { mean: number; max: number };
  readonly lateSteps: number;
  readonly rebasedUs: number;
  readonly preemptions: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

const FLAGS = ["--served-model-name", "m", "--timing", "constant:ttft=10ms,itl=2ms", "--disable-uvicorn-access-log"];
const ASKED = { "x-understudy-truth": "summary" };

describe("a server", () => {
  const started = hosted(FLAGS);
  afterAll(async () => void (await (await started).stop()));

  async function say(body: object, headers: Record<string, string> = ASKED, path = "/v1/completions") {
    const { url } = await started;
    return fetch(`${url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "m", max_tokens: 8, ignore_eos: true, seed: 1, prompt: "Hello", ...body }),
    });
  }
  async function rowOf(id: string): Promise<RequestLine & { tokens: { dueUs: number[] } }> {
    const { url } = await started;
    const { requests } = (await (await fetch(`${url}/understudy/requests/${id}`)).json()) as { requests: never[] };
    return requests[0]!;
  }
  const ofStream = (text: string) => JSON.parse(/^: understudy-truth (.*)$/m.exec(text)![1]!) as Summary[];

  async function expectRow(summary: Summary): Promise<void> {
    const row = await rowOf(summary.id);
    const { id, reason, promptTokens, cachedTokens, outputTokens, preemptions, arrivalUs } = row;
    expect(summary).toMatchObject({ id, reason, promptTokens, cachedTokens, outputTokens, preemptions, arrivalUs });
    expect(summary).toMatchObject({ lateSteps: row.late.steps, rebasedUs: row.late.rebasedUs });
    expect(summary.queueUs).toBe(Math.max(0, row.scheduledUs! - row.queuedUs!));
    expect([summary.ttftUs.due, summary.e2eUs.due]).toEqual([row.prefillEndUs! - arrivalUs, row.endUs! - arrivalUs]);
    // Both timestamps are taken around the same write.
    expect(summary.ttftUs.written).toBeLessThanOrEqual(row.firstWrittenUs! - arrivalUs);
    expect(summary.ttftUs.written).toBeGreaterThanOrEqual(summary.ttftUs.due);
    expect(summary.e2eUs.written).toBeLessThanOrEqual(row.lastWrittenUs! - arrivalUs);
    const { dueUs } = row.tokens;
    const gaps = dueUs.slice(1).map((us, i) => us - dueUs[i]!);
    expect(summary.itlUs.due!.max).toBe(Math.max(...gaps));
    expect(summary.itlUs.due!.mean).toBeCloseTo(gaps.reduce((sum, us) => sum + us, 0) / gaps.length, 0);
    expect(summary.itlUs.written!.max).toBeGreaterThanOrEqual(summary.itlUs.written!.mean);
    expect(summary.lateUs.max).toBeGreaterThanOrEqual(summary.lateUs.mean);
  }

  test("a stream has the same events, and a comment after the last one", async () => {
    const plain = await (await say({ stream: true }, { "x-request-id": "s" })).text();
    const text = await (await say({ stream: true }, { ...ASKED, "x-request-id": "s" })).text();
    const [before, after] = text.split("data: [DONE]\n\n") as [string, string];
    const same = (events: string) => events.replace(/"created":\d+/g, '"created":0');
    expect(same(`${before}data: [DONE]\n\n`)).toBe(same(plain));
    expect(after).toMatch(/^: understudy-truth \[\{[\x20-\x7e]*\}\]\n\n$/);
    const summaries = ofStream(text);
    expect(summaries).toHaveLength(1);
    const { url } = await started;
    const { requests } = (await (await fetch(`${url}/understudy/requests/s`)).json()) as { requests: RequestLine[] };
    expect(requests.map(({ bytes }) => bytes)).toEqual([Buffer.byteLength(plain), Buffer.byteLength(text)]);
  });

  test.each<[string, object]>([
    ["plain", {}],
    ["with a stop string", { stop: ["e"], max_tokens: 400 }],
    ["with usage, chat", { stream_options: { include_usage: true }, messages: [{ role: "user", content: "Hi" }] }],
    ["several tokens in a chunk", { max_tokens: 30, stream_interval: 7 }],
  ])("the numbers equal those of the row: %s", async (name, body) => {
    const path = "messages" in body ? "/v1/chat/completions" : "/v1/completions";
    const headers = { ...ASKED, "x-request-id": name.replaceAll(/\W/g, "") };
    const [summary] = ofStream(await (await say({ ...body, stream: true }, headers, path)).text());
    await expectRow(summary!);
    if ("stream_options" in body) return;
    const whole = await say(body, { ...ASKED, "x-request-id": `${headers["x-request-id"]}whole` }, path);
    await whole.text();
    await expectRow((JSON.parse(whole.headers.get("x-understudy-truth")!) as Summary[])[0]!);
  });

  test("there is one object per choice, at most sixteen, and none without a request for it", async () => {
    const ids = async (body: object, id: string) =>
      ofStream(await (await say({ stream: true, ...body }, { ...ASKED, "x-request-id": id })).text()).map(
        ({ id }) => id,
      );
    expect(await ids({ n: 2, prompt: ["A", "B"] }, "two")).toEqual([
      "0_cmpl-two-0",
      "1_cmpl-two-0",
      "0_cmpl-two-1",
      "1_cmpl-two-1",
    ]);
    expect(await ids({ n: 20 }, "many")).toHaveLength(16);
    expect(await (await say({ stream: true }, { "x-understudy-truth": "all" })).text()).not.toContain("understudy");
    expect((await say({}, {})).headers.has("x-understudy-truth")).toBe(false);
    expect((await say({ prompt: 7 })).headers.has("x-understudy-truth")).toBe(false);
    const strange = await say({}, { ...ASKED, "x-request-id": 'a"b\\ü' });
    const [{ id }] = JSON.parse(strange.headers.get("x-understudy-truth")!) as [Summary];
    expect(id).toBe(`${((await strange.json()) as { id: string }).id}-0`);
  });

  test("OpenAI's own client reads such a stream to its end", async () => {
    const { url } = await started;
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", defaultHeaders: ASKED });
    const stream = await client.chat.completions.create({
      model: "m",
      max_tokens: 8,
      stream: true,
      messages: [{ role: "user", content: "Hi" }],
    });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    expect(text.length).toBeGreaterThan(0);
  });
});

test("a server that keeps no rows adds no summary", async () => {
  const server = await hosted([...FLAGS, "--truth-requests", "0"]);
  try {
    const response = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...ASKED },
      body: JSON.stringify({ model: "m", max_tokens: 2, prompt: "Hello", stream: true }),
    });
    expect(await response.text()).toEndWith("data: [DONE]\n\n");
  } finally {
    await server.stop();
  }
});
