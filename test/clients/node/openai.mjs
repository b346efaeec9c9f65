/** openai for Node: chat, completions, responses, streams, its helpers, its errors and retries. */
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { aborted, assertWeather, hello, model, run, url, WEATHER } from "./check.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const patient = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 2 });
const tools = [{ type: "function", function: { name: "weather", description: "The weather", parameters: WEATHER } }];

await run({
  async results() {
    const whole = await client.chat.completions.create({ model, messages: hello, max_tokens: 20, seed: 1 });
    const stream = await client.chat.completions.create({
      model,
      messages: hello,
      max_tokens: 20,
      seed: 1,
      stream: true,
    });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(whole.choices[0].finish_reason, "length");
    const completion = await client.completions.create({ model, prompt: "Once", max_tokens: 5 });
    assert.ok(completion.choices[0].text.length > 0);
    const models = await client.models.list();
    assert.equal(models.data[0].id, model);
  },
  async usage() {
    const asked = { model, messages: hello, max_tokens: 9, stream: true, stream_options: { include_usage: true } };
    let usage;
    for await (const chunk of await client.chat.completions.create(asked)) usage = chunk.usage ?? usage;
    assert.equal(usage.completion_tokens, 9);
    assert.equal(usage.total_tokens, usage.prompt_tokens + 9);
  },
  async errors() {
    const missing = client.chat.completions.create({ model: "nobody", messages: hello });
    await assert.rejects(missing, (error) => error instanceof OpenAI.NotFoundError && error.type === "NotFoundError");
    const bad = client.chat.completions.create({ model, messages: hello, temperature: -1 });
    await assert.rejects(bad, (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  },
  aborts: () =>
    aborted(async () => {
      const asked = { model, messages: hello, max_tokens: 5000, stream: true };
      let seen = 0;
      for await (const _ of await client.chat.completions.create(asked)) if (++seen === 5) break;
      assert.equal(seen, 5);
    }),
  async retries() {
    const messages = [{ role: "user", content: "retry openai-node" }];
    await assert.rejects(
      client.chat.completions.create({ model, messages }),
      (error) => error instanceof OpenAI.RateLimitError && error.headers.get("retry-after") === "1",
    );
    const { response, data } = await patient.chat.completions.create({ model, messages }).withResponse();
    assert.equal(response.status, 200);
    assert.equal(data.choices[0].message.content, "At last");
  },
  async tools() {
    const asked = { model, messages: hello, tools, tool_choice: { type: "function", function: { name: "weather" } } };
    const whole = await client.chat.completions.create(asked);
    const [call] = whole.choices[0].message.tool_calls;
    assert.equal(call.function.name, "weather");
    assertWeather(JSON.parse(call.function.arguments));
    const required = await client.chat.completions.create({ ...asked, tool_choice: "required" });
    const messages = [...hello, required.choices[0].message];
    for (const { id } of required.choices[0].message.tool_calls)
      messages.push({ role: "tool", tool_call_id: id, content: "sunny" });
    const after = await client.chat.completions.create({ model, messages, tools, tool_choice: "none", max_tokens: 12 });
    assert.ok(after.choices[0].message.content.length > 0);
  },
  async "structured output"() {
    const format = z.object({ city: z.string(), days: z.number().int().min(1).max(7) });
    const parsed = await client.chat.completions.parse({
      model,
      messages: hello,
      response_format: zodResponseFormat(format, "weather"),
    });
    assertWeather(parsed.choices[0].message.parsed);
  },
  async "streaming helpers"() {
    const runner = client.chat.completions.stream({ model, messages: hello, max_tokens: 16 });
    let pieces = "";
    runner.on("content", (delta) => {
      pieces += delta;
    });
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.content, pieces);
    const calling = client.chat.completions.stream({ model, messages: hello, tools, tool_choice: "required" });
    const called = await calling.finalChatCompletion();
    assertWeather(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments));
  },
  async responses() {
    const whole = await client.responses.create({ model, input: "Hello", max_output_tokens: 24 });
    assert.ok(whole.output_text.length > 0);
    assert.ok(whole.usage.output_tokens <= 24);
    const stream = await client.responses.create({ model, input: "Hello", max_output_tokens: 24, stream: true });
    let text = "";
    let last = -1;
    let final;
    for await (const event of stream) {
      assert.ok(event.sequence_number > last);
      last = event.sequence_number;
      if (event.type === "response.output_text.delta") text += event.delta;
      final = event;
    }
    assert.ok(["response.completed", "response.incomplete"].includes(final.type), final.type);
    assert.ok(text.length > 0);
  },
});
