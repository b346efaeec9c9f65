/** openai for Node against trtllm-serve, whose errors are flat: chat, completions, streams, tools, schemas. */
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { assertWeather, hello, model, run, url, WEATHER } from "./check.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const tools = [{ type: "function", function: { name: "weather", description: "The weather", parameters: WEATHER } }];

await run({
  async results() {
    const asked = { model, messages: hello, max_tokens: 20, seed: 1 };
    const whole = await client.chat.completions.create(asked);
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }))
      text += chunk.choices[0]?.delta.content ?? "";
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(whole.choices[0].finish_reason, "length");
    const completion = await client.completions.create({ model: "any", prompt: "Once", max_tokens: 5 });
    assert.deepEqual([completion.model, completion.usage.completion_tokens], ["any", 5]);
    assert.equal((await client.models.list()).data[0].owned_by, "tensorrt_llm");
  },
  async usage() {
    const asked = { model, messages: hello, max_tokens: 9, stream: true, stream_options: { include_usage: true } };
    let usage;
    for await (const chunk of await client.chat.completions.create(asked)) usage = chunk.usage ?? usage;
    assert.equal(usage.total_tokens, usage.prompt_tokens + 9);
  },
  async errors() {
    const extra = client.chat.completions.create({ model, messages: hello, enable_thinking: false });
    await assert.rejects(
      extra,
      (error) => error instanceof OpenAI.BadRequestError && /extra_forbidden/.test(error.message),
    );
    const prompt = Array.from({ length: 9000 }, () => 5);
    const long = client.completions.create({ model, prompt, max_tokens: 1 });
    await assert.rejects(long, (error) => error instanceof OpenAI.BadRequestError);
  },
  async tools() {
    const asked = { model, messages: hello, tools, tool_choice: "required" };
    const [call] = (await client.chat.completions.create(asked)).choices[0].message.tool_calls;
    assertWeather(JSON.parse(call.function.arguments));
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    assert.equal(streamed.choices[0].finish_reason, "tool_calls");
    assertWeather(JSON.parse(streamed.choices[0].message.tool_calls[0].function.arguments));
  },
  async "structured output"() {
    const format = zodResponseFormat(z.object({ city: z.string(), days: z.number().int().min(1).max(7) }), "weather");
    const parsed = await client.chat.completions.parse({ model, messages: hello, response_format: format });
    assert.ok(parsed.choices[0].message.parsed.days >= 1);
  },
});
