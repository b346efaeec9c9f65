/** openai for Node. */
import OpenAI from "openai";
import { hello, run } from "./driver.mjs";

await run(
  async ({ baseUrl, model, timeoutMs, tools }, seen) => {
    const client = new OpenAI({ baseURL: baseUrl, apiKey: "none", timeout: timeoutMs });
    const stream = await client.chat.completions.create({
      model,
      messages: hello,
      stream: true,
      stream_options: { include_usage: true },
      ...(tools ? { tools } : {}),
    });
    for await (const chunk of stream) seen.chunk(chunk);
  },
  (error) => error instanceof OpenAI.OpenAIError,
);
