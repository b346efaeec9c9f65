/** Does the truth log of a live server name the requests and count the bytes that their clients saw? */
import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RequestLine } from "../../src/truth/schema.ts";
import { serve } from "../server.ts";

test("ids and bytes of requests that came through HTTP", async () => {
  const folder = await mkdtemp(join(tmpdir(), "understudy-truth-"));
  try {
    const file = join(folder, "truth.jsonl");
    const server = await serve(["--served-model-name", "m", "--timing", "none", "--truth-log", file]);
    const say = async (path: string, id: string, body: object): Promise<string> => {
      const response = await fetch(`${server.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-request-id": id },
        body: JSON.stringify({ model: "m", max_tokens: 20, ignore_eos: true, ...body }),
      });
      expect(response.status).toBe(200);
      return response.text();
    };
    const messages = [{ role: "user", content: "Hello" }];
    const answers = {
      "chatcmpl-stream": await say("/v1/chat/completions", "stream", { messages, stream: true }),
      "chatcmpl-plain": await say("/v1/chat/completions", "plain", { messages }),
      "cmpl-plain-0": await say("/v1/completions", "plain", { prompt: "Hello", n: 1 }),
    };
    const two = await say("/v1/completions", "two", { prompt: ["One", "Two"], n: 2, stream: true });
    await server.stop();

    const rows = (await Bun.file(file).text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as RequestLine)
      .filter(({ type }) => type === "request");
    const bytes = new Map(rows.map((row) => [row.id, row.bytes]));
    for (const [id, answer] of Object.entries(answers))
      expect([id, bytes.get(id)]).toEqual([id, Buffer.byteLength(answer)]);
    const children = ["0_cmpl-two-0", "1_cmpl-two-0", "0_cmpl-two-1", "1_cmpl-two-1"];
    expect([...bytes.keys()].toSorted()).toEqual([...Object.keys(answers), ...children].toSorted());
    expect(children.every((id) => bytes.get(id)! > 0)).toBe(true);
    expect(children.reduce((sum, id) => sum + bytes.get(id)!, 0)).toBe(Buffer.byteLength(two));
  } finally {
    await rm(folder, { recursive: true });
  }
});
