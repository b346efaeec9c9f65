/** What may a test author ask of a server? Here in Bun, in this process; test/library-node.test.ts runs the same in Node. */
import { expect, test } from "bun:test";
import { createServer } from "../../src/library/bun.ts";
import type { ServerOptions } from "../../src/library/option-types.ts";
import { SCENARIOS } from "../library-scenarios.ts";
import { eventually } from "../server.ts";

test.each(SCENARIOS)("%s", async (_, scenario, expected) => {
  expect(await scenario(createServer)).toEqual(expected);
});

test("a truth log that cannot be written rejects `ready`, as nothing is printed", async () => {
  const server = createServer({ truthLog: "/nowhere/truth.jsonl" });
  await expect(server.ready).rejects.toThrow("truthLog /nowhere/truth.jsonl: there is no folder /nowhere");
});

test("a server takes the flags that an engine has, and refuses a file of them", () => {
  expect(() => createServer({ maxNumSeqs: 0 })).toThrow("maxNumSeqs: takes");
  expect(() => createServer({ bug: ["worker-saw-tooth"] })).toThrow("--workers of at least 2");
  expect(() => createServer({ config: "x.yaml" } as ServerOptions)).toThrow("config: no such option");
});

test("a server in this process: ready, answers, gone", async () => {
  const options = { model: "my/model", timing: "none", apiKey: ["secret"], outputTokens: "constant:4" };
  const server = createServer({ ...options, devMode: true });
  expect(() => server.url).toThrow("await server.ready");
  expect(await server.ready).toBe(server);
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
  const models = await fetch(`${server.url}/v1/models`, { headers: { authorization: "Bearer secret" } });
  expect(await models.json()).toMatchObject({ data: [{ id: "my/model" }] });
  expect((await fetch(`${server.url}/is_paused`)).status).toBe(200);
  const told = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: "Bearer secret", "content-type": "application/json" },
    body: JSON.stringify({ model: "my/model", prompt: "Hello", max_tokens: 50 }),
  });
  expect(await told.json()).toMatchObject({ choices: [{ finish_reason: "stop" }], usage: { completion_tokens: 4 } });
  const second = createServer({ port: Number(new URL(server.url).port) });
  await expect(second.ready).rejects.toMatchObject({ code: "EADDRINUSE" });
  await second.close();
  await server.close();
  await server.close();
  await eventually(() =>
    fetch(server.url).then(
      () => false,
      () => true,
    ),
  );
});
