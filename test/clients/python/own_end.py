"""Chats with a limit far beyond any answer, one after the other: a line of JSON each, how it ended and after how many tokens."""
import json

import anthropic
import openai
from check import HELLO, MODEL, URL

LIMIT = 4096
openai_client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
anthropic_client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)


def tell(client, end, tokens):
    print(json.dumps({"client": client, "end": end, "tokens": tokens}), flush=True)


chat = openai_client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=LIMIT)
tell("openai", chat.choices[0].finish_reason, chat.usage.completion_tokens)
asked = {"model": MODEL, "messages": HELLO, "max_tokens": LIMIT, "stream_options": {"include_usage": True}}
with openai_client.chat.completions.stream(**asked) as stream:
    streamed = stream.get_final_completion()
tell("openai, streamed", streamed.choices[0].finish_reason, streamed.usage.completion_tokens)
response = openai_client.responses.create(model=MODEL, input="Hello", max_output_tokens=LIMIT)
tell("openai, responses", response.status, response.usage.output_tokens)

message = anthropic_client.messages.create(model=MODEL, messages=HELLO, max_tokens=LIMIT)
tell("anthropic", message.stop_reason, message.usage.output_tokens)
with anthropic_client.messages.stream(model=MODEL, messages=HELLO, max_tokens=LIMIT) as stream:
    final = stream.get_final_message()
tell("anthropic, streamed", final.stop_reason, final.usage.output_tokens)
