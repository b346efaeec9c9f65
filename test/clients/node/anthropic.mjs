/** @anthropic-ai/sdk on /v1/messages. */
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { aborted, assertWeather, hello, model, run, url, WEATHER } from "./check.mjs";

const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const tools = [{ name: "weather", description: "The weather", input_schema: WEATHER }];

await run({
  async results() {
    const whole = await client.messages.create({ model, messages: hello, max_tokens: 20 });
    assert.equal(whole.stop_reason, "max_tokens");
    assert.ok(whole.content[0].text.length > 0);
    assert.equal(whole.role, "assistant");
  },
  async usage() {
    const whole = await client.messages.create({ model, messages: hello, max_tokens: 9 });
    assert.equal(whole.usage.output_tokens, 9);
    const counted = await client.messages.countTokens({ model, messages: hello });
    assert.equal(counted.input_tokens, whole.usage.input_tokens);
  },
  async errors() {
    const missing = client.messages.create({ model: "nobody", messages: hello, max_tokens: 5 });
    await assert.rejects(missing, (error) => error instanceof Anthropic.NotFoundError);
    const bad = client.messages.create({ model, messages: [], max_tokens: -5 });
    await assert.rejects(bad, (error) => error instanceof Anthropic.BadRequestError);
  },
  aborts: () =>
    aborted(async () => {
      let seen = 0;
      const stream = await client.messages.create({ model, messages: hello, max_tokens: 5000, stream: true });
      for await (const event of stream) if (event.type === "content_block_delta" && ++seen === 5) break;
      assert.equal(seen, 5);
    }),
  async retries() {
    const patient = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 3 });
    const messages = [{ role: "user", content: "retry anthropic-node" }];
    const answer = await patient.messages.create({ model, messages, max_tokens: 20 });
    assert.equal(answer.content[0].text, "At last");
  },
  async tools() {
    const asked = { model, messages: hello, max_tokens: 300, tools, tool_choice: { type: "tool", name: "weather" } };
    const whole = await client.messages.create(asked);
    const use = whole.content.find(({ type }) => type === "tool_use");
    assert.equal(use.name, "weather");
    assertWeather(use.input);
    assert.equal(whole.stop_reason, "tool_use");
  },
  async "streaming helpers"() {
    const stream = client.messages.stream({ model, messages: hello, max_tokens: 16 });
    let pieces = "";
    stream.on("text", (delta) => {
      pieces += delta;
    });
    const final = await stream.finalMessage();
    assert.equal(final.content[0].text, pieces);
    const calling = client.messages.stream({
      model,
      messages: hello,
      max_tokens: 300,
      tools,
      tool_choice: { type: "any" },
    });
    const called = await calling.finalMessage();
    assertWeather(called.content.find(({ type }) => type === "tool_use").input);
  },
});
