/** Chats with a limit far beyond any answer, one after the other: a line of JSON each, how it ended and after how many tokens. */
import Anthropic from "@anthropic-ai/sdk";
import { ChatOpenAI } from "@langchain/openai";
import OpenAI from "openai";
import { hello, model, url } from "./check.mjs";

const limit = 4096;
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const langchain = new ChatOpenAI({ model, apiKey: "none", maxTokens: limit, configuration: { baseURL: `${url}/v1` } });
const tell = (client, end, tokens) => console.log(JSON.stringify({ client, end, tokens }));

const chat = await openai.chat.completions.create({ model, messages: hello, max_tokens: limit });
tell("openai", chat.choices[0].finish_reason, chat.usage.completion_tokens);
const asked = { model, messages: hello, max_tokens: limit, stream_options: { include_usage: true } };
const streamed = await openai.chat.completions.stream(asked).finalChatCompletion();
tell("openai, streamed", streamed.choices[0].finish_reason, streamed.usage.completion_tokens);
const response = await openai.responses.create({ model, input: "Hello", max_output_tokens: limit });
tell("openai, responses", response.status, response.usage.output_tokens);

const message = await anthropic.messages.create({ model, messages: hello, max_tokens: limit });
tell("anthropic", message.stop_reason, message.usage.output_tokens);
const final = await anthropic.messages.stream({ model, messages: hello, max_tokens: limit }).finalMessage();
tell("anthropic, streamed", final.stop_reason, final.usage.output_tokens);

const invoked = await langchain.invoke("Hello");
tell("langchain", invoked.response_metadata.finish_reason, invoked.usage_metadata.output_tokens);
