/** Vercel's ai with @ai-sdk/openai: its full stream. Its timeout is an abort of ours. */
import { createOpenAI } from "@ai-sdk/openai";
import { AISDKError, jsonSchema, streamText, tool } from "ai";
import { run } from "./driver.mjs";

class Interrupted extends Error {}

const offered = (tools) =>
  Object.fromEntries(
    tools.map(({ function: { name, parameters } }) => [name, tool({ inputSchema: jsonSchema(parameters) })]),
  );

await run(
  async ({ baseUrl, model, timeoutMs, tools }, seen) => {
    const provider = createOpenAI({ baseURL: baseUrl, apiKey: "none" });
    const { fullStream } = streamText({
      model: provider.chat(model),
      prompt: "Say it",
      abortSignal: AbortSignal.timeout(timeoutMs),
      onError() {},
      ...(tools ? { tools: offered(tools) } : {}),
    });
    for await (const part of fullStream) {
      if (part.type === "text-delta") seen.text += part.text;
      else if (part.type === "tool-call") seen.call(part.toolCallId, part.toolName, JSON.stringify(part.input));
      else if (part.type === "error") throw part.error;
      else if (part.type === "abort") throw new DOMException("aborted", "TimeoutError");
      else if (part.type === "finish") {
        seen.finish = part.finishReason;
        const { inputTokens, outputTokens } = part.totalUsage;
        if (inputTokens !== undefined) seen.usage = { prompt: inputTokens, completion: outputTokens };
      }
    }
    // So it says that an answer was broken off.
    if (["error", "unknown", "interrupted", "other"].includes(seen.finish))
      throw new Interrupted(`finish reason ${seen.finish}`);
  },
  (error) => AISDKError.isInstance(error) || error instanceof Interrupted,
);
