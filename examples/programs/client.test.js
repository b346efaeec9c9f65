// Tests how a client behaves when the server is full, what it sends, and that it disconnects: npx vitest run client.test.js
import { serverFixture } from "llm-understudy/vitest";
import { test as base, expect } from "vitest";
import { ask, stream } from "./client.js";

const test = base.extend({ server: serverFixture({ timing: "none" }) });

test("it comes again when it is told to", async ({ server }) => {
  await server.next({ error: { status: 429, headers: { "retry-after": 0 } } });
  await server.next("Hello.");
  expect(await ask(server.url, "Hi")).toBe("Hello.");
  expect((await server.requests()).map(({ status }) => status)).toEqual([429, 200]);
});

test("it sends what it is given", async ({ server }) => {
  await server.on({ user: { contains: "weather" } }, "Rain.");
  expect(await ask(server.url, "The weather?")).toBe("Rain.");
  expect((await server.lastRequest()).body.messages).toEqual([{ role: "user", content: "The weather?" }]);
});

test("it leaves when nobody reads any more", async ({ server }) => {
  await server.next({ text: "One two three", times_ms: [0, 60_000] });
  for await (const said of stream(server.url, "Count")) {
    expect(said).toBe("One");
    break;
  }
  await server.idle();
  expect(await server.lastRequest()).toMatchObject({ outcome: "aborted", tokens: 1 });
});
