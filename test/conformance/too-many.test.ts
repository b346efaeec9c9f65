/** Checks that a request for too many choices is refused at once, with any other fields. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--served-model-name", "m", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]);
});
afterAll(() => server.stop());

const tools = [{ type: "function", function: { name: "w", parameters: { type: "object" } } }];
const schema = { type: "json_schema", json_schema: { name: "s", schema: { type: "object" } } };

// A loop over each choice came before the check and took minutes and gigabytes (fuzzing, seed 1, input 10,842).
test.each([
  ["a named tool", { tools, tool_choice: { type: "function", function: { name: "w" } } }],
  ["any tool", { tools, tool_choice: "required" }],
  ["tools with automatic choice", { tools }],
  ["a schema", { response_format: schema }],
  ["a pattern", { structured_outputs: { regex: "a+" } }],
  ["nothing else", {}],
])("too many choices are refused at once with %s", async (_, more) => {
  const [messages, model] = [[{ role: "user", content: "x" }], "m"];
  for (const n of [16385, 2 ** 31, 2 ** 53]) {
    const body = JSON.stringify({ model, messages, n, ...more });
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    const { error } = (await answer.json()) as { error: { message: string } };
    expect([answer.status, error.message]).toEqual([
      400,
      `n must be at most 16384, got ${n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable.`,
    ]);
  }
});
