/** @langchain/openai's ChatOpenAI, streamed; two retries in place of its six, which would take a minute. Errors pass through it as openai's. */
import { ChatOpenAI } from "@langchain/openai";
import OpenAI from "openai";
import { hello, run } from "./driver.mjs";

await run(
  async ({ baseUrl, model, timeoutMs, tools }, seen) => {
    const chat = new ChatOpenAI({
      model,
      apiKey: "none",
      timeout: timeoutMs,
      maxRetries: 2,
      configuration: { baseURL: baseUrl },
    });
    const asking = tools ? chat.bindTools(tools) : chat;
    for await (const chunk of await asking.stream(hello[0].content)) {
      if (typeof chunk.content === "string") seen.text += chunk.content;
      for (const call of chunk.tool_call_chunks ?? []) seen.call(call.index, call.name, call.args);
      seen.finish = chunk.response_metadata?.finish_reason ?? seen.finish;
      const usage = chunk.usage_metadata;
      if (usage) seen.usage = { prompt: usage.input_tokens, completion: usage.output_tokens };
    }
  },
  (error) => error instanceof OpenAI.OpenAIError,
);
