/** @anthropic-ai/sdk, its stream of events on /v1/messages. */
import Anthropic from "@anthropic-ai/sdk";
import { hello, run } from "./driver.mjs";

await run(
  async ({ anthropicBaseUrl, model, timeoutMs }, seen) => {
    const client = new Anthropic({ baseURL: anthropicBaseUrl, apiKey: "none", timeout: timeoutMs });
    let prompt = 0;
    for await (const event of await client.messages.create({ model, messages: hello, max_tokens: 200, stream: true })) {
      if (event.type === "message_start") prompt = event.message.usage.input_tokens;
      else if (event.type === "content_block_delta" && event.delta.type === "text_delta") seen.text += event.delta.text;
      else if (event.type === "message_delta") {
        seen.finish = event.delta.stop_reason;
        seen.usage = { prompt, completion: event.usage.output_tokens };
      }
    }
  },
  (error) => error instanceof Anthropic.AnthropicError,
);
