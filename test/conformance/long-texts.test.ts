/** Tests that a text of megabytes in any place of a request is refused or read, with memory of at most a few times its size. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type Server, serve } from "../server.ts";

setDefaultTimeout(60_000);
const MIB = 2 ** 20;
const TEXT = "x".repeat(16 * MIB);
/**
 * Limit of copies of the body in memory: parts, bytes, text, values, an error's text, and copies that are not collected yet.
 */
const COPIES_MOST = 18;

/** Returns the peak memory since the start, in bytes. */
function peak({ pid }: Server): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) * 1024;
}

let server: Server;
afterEach(() => server.stop("SIGKILL"));

const message = { role: "user", content: "a" };
const CASES: Readonly<Record<string, readonly [path: string, body: object, status: number]>> = {
  "the type of a content part": [
    "/v1/chat/completions",
    { messages: [{ role: "user", content: [{ type: TEXT }] }] },
    400,
  ],
  "a text as messages": ["/v1/chat/completions", { messages: TEXT }, 400],
  "a text as tool calls": ["/v1/chat/completions", { messages: [{ ...message, tool_calls: TEXT }] }, 400],
  "the name of a tool": ["/v1/messages", { messages: [message], max_tokens: 1, tools: [{ name: TEXT }] }, 400],
  "a stop string": ["/v1/completions", { prompt: "a", stop: [TEXT], max_tokens: 2 }, 200],
};

for (const [name, [path, body, status]] of Object.entries(CASES))
  test(`${name} of 16 MiB takes at most ${COPIES_MOST} times its bytes`, async () => {
    server = await serve(["--served-model-name", "m"]);
    const ask = (sent: string) =>
      fetch(server.url + path, { method: "POST", body: sent, headers: { "content-type": "application/json" } });
    // The memory of the reading thread itself does not count.
    await (await ask(JSON.stringify({ model: "m", pad: "y".repeat(MIB) }))).text();
    const before = peak(server);
    const answer = await ask(JSON.stringify({ model: "m", ...body }));
    expect(answer.status).toBe(status);
    await answer.text();
    expect((peak(server) - before) / TEXT.length).toBeLessThan(COPIES_MOST);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

test("65,536 characters of a text as tool calls are read, more are refused", async () => {
  server = await serve(["--served-model-name", "m"]);
  const refusal = async (characters: number) => {
    const body = { model: "m", messages: [{ ...message, role: "assistant", tool_calls: "x".repeat(characters) }] };
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify(body),
      headers,
    });
    expect(answer.status).toBe(400);
    return answer.text();
  };
  const limit = "understudy: tool_calls is a text of more than 65536 characters";
  expect(await refusal(65_536)).not.toContain(limit);
  expect(await refusal(65_537)).toContain(limit);
});

test("a 404 quotes 65,536 characters of a model's name", async () => {
  server = await serve(["--served-model-name", "m", "--timing", "none"]);
  for (const [length, quoted] of [
    [65_536, "n".repeat(65_536)],
    [65_537, `${"n".repeat(65_536)}…`],
    [16 * MIB, `${"n".repeat(65_536)}…`],
  ] as const) {
    const body = JSON.stringify({ model: "n".repeat(length), prompt: "a" });
    const answer = await fetch(`${server.url}/v1/completions`, { method: "POST", body, headers: JSON_TYPE });
    expect(answer.status).toBe(404);
    const { error } = (await answer.json()) as { error: { message: string } };
    expect(error.message === `The model \`${quoted}\` does not exist. Valid aliases: m.`).toBe(true);
  }
});
const JSON_TYPE = { "content-type": "application/json" };
