/** Tests a client of streams: starts a server, orders a fault in an answer, and checks that the client reports an error. */
import { createServer } from "llm-understudy";
import { afterAll, beforeAll, expect, test } from "vitest";

const server = createServer({ timing: "none" });
beforeAll(() => server.ready);
afterAll(() => server.close());

/** The client under test: it reads a stream to its end. */
async function complete(fault: string): Promise<string> {
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "Hello", stream: true, max_tokens: 20, understudy: { fault } }),
  });
  return answer.text();
}

test("events that are split over segments are whole", async () => {
  expect(await complete("B4")).toContain("[DONE]");
});

test("a stream that breaks off is an error", async () => {
  await expect(complete("E6@e5")).rejects.toThrow();
});
