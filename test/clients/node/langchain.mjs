/** @langchain/openai: invoke, stream, tools, structured output. */
import assert from "node:assert/strict";
import { HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { aborted, assertWeather, run, url } from "./check.mjs";

const chat = (more = {}) =>
  new ChatOpenAI({
    model: "m",
    apiKey: "none",
    maxRetries: 0,
    maxTokens: 20,
    configuration: { baseURL: `${url}/v1` },
    ...more,
  });
const question = [new HumanMessage("Hello, who are you?")];
const weather = z.object({ city: z.string(), days: z.number().int().min(1).max(7) });

await run({
  async results() {
    const seeded = chat({ modelKwargs: { seed: 1 } });
    const whole = await seeded.invoke(question);
    let text = "";
    for await (const chunk of await seeded.stream(question)) text += chunk.content;
    assert.equal(text, whole.content);
  },
  async usage() {
    const whole = await chat({ maxTokens: 9 }).invoke(question);
    assert.equal(whole.usage_metadata.output_tokens, 9);
    let usage;
    for await (const chunk of await chat({ maxTokens: 9 }).stream(question)) usage = chunk.usage_metadata ?? usage;
    assert.equal(usage.output_tokens, 9);
  },
  errors: () => assert.rejects(chat({ model: "nobody" }).invoke(question), (error) => error.status === 404),
  aborts: () =>
    aborted(async () => {
      let seen = 0;
      for await (const _ of await chat({ maxTokens: 5000 }).stream(question)) if (++seen === 5) break;
      assert.equal(seen, 5);
    }),
  async retries() {
    const answer = await chat({ maxRetries: 3 }).invoke([new HumanMessage("retry langchain-node")]);
    assert.equal(answer.content, "At last");
  },
  async tools() {
    const bound = chat({ maxTokens: 200 }).bindTools(
      [{ name: "weather", description: "The weather", schema: weather }],
      {
        tool_choice: "weather",
      },
    );
    const { tool_calls: calls } = await bound.invoke(question);
    assertWeather(calls[0].args);
  },
  async "structured output"() {
    const structured = chat({ maxTokens: 200 }).withStructuredOutput(weather, {
      method: "jsonSchema",
      name: "weather",
    });
    assertWeather(await structured.invoke(question));
  },
});
