/** Vercel's ai with @ai-sdk/openai: text, streams, objects, tools. */
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateObject, generateText, jsonSchema, streamText, tool } from "ai";
import { aborted, assertWeather, run, url, WEATHER } from "./check.mjs";

const provider = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const model = provider.chat("m");
const prompt = "Hello, who are you?";

await run({
  async results() {
    const { text, finishReason } = await generateText({ model, prompt, maxOutputTokens: 20, seed: 1 });
    const streamed = streamText({ model, prompt, maxOutputTokens: 20, seed: 1 });
    let joined = "";
    for await (const piece of streamed.textStream) joined += piece;
    assert.equal(joined, text);
    assert.equal(finishReason, "length");
  },
  async usage() {
    const streamed = streamText({ model, prompt, maxOutputTokens: 9 });
    await streamed.consumeStream();
    const usage = await streamed.usage;
    assert.equal(usage.outputTokens, 9);
    assert.ok(usage.inputTokens > 0);
  },
  async errors() {
    const asked = generateText({ model: provider.chat("nobody"), prompt, maxRetries: 0 });
    await assert.rejects(asked, (error) => APICallError.isInstance(error) && error.statusCode === 404);
  },
  aborts: () =>
    aborted(async () => {
      const controller = new AbortController();
      const streamed = streamText({
        model,
        prompt,
        maxOutputTokens: 5000,
        abortSignal: controller.signal,
        onError() {},
      });
      let seen = 0;
      for await (const _ of streamed.textStream) if (++seen === 5) controller.abort();
      assert.ok(seen >= 5);
    }),
  async retries() {
    const { text } = await generateText({ model, prompt: "retry ai-sdk", maxRetries: 3 });
    assert.equal(text, "At last");
  },
  async tools() {
    const weather = tool({ description: "The weather", inputSchema: jsonSchema(WEATHER) });
    const { toolCalls } = await generateText({ model, prompt, tools: { weather }, toolChoice: "required" });
    assert.equal(toolCalls[0].toolName, "weather");
    assertWeather(toolCalls[0].input);
    const streamed = streamText({
      model,
      prompt,
      tools: { weather },
      toolChoice: { type: "tool", toolName: "weather" },
    });
    assertWeather((await streamed.toolCalls)[0].input);
  },
  async "structured output"() {
    const { object } = await generateObject({ model, prompt, schema: jsonSchema(WEATHER) });
    assertWeather(object);
  },
  async responses() {
    const { text } = await generateText({ model: provider.responses("m"), prompt, maxOutputTokens: 24 });
    assert.ok(text.length > 0);
  },
});
