"""openai for Python against trtllm-serve, whose errors are flat: chat, completions, streams, tools, schemas."""
import json

import openai
from check import HELLO, MODEL, URL, WEATHER, assert_weather, raises, run
from pydantic import BaseModel, Field

client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
chat = client.chat.completions
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": WEATHER}}]


class Weather(BaseModel):
    city: str
    days: int = Field(ge=1, le=7)


def results():
    whole = chat.create(model=MODEL, messages=HELLO, max_tokens=20, seed=1)
    stream = chat.create(model=MODEL, messages=HELLO, max_tokens=20, seed=1, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "length"
    completion = client.completions.create(model="any", prompt="Once", max_tokens=5, extra_body={"top_k": 5})
    assert completion.model == "any" and completion.usage.completion_tokens == 5
    assert client.models.list().data[0].owned_by == "tensorrt_llm"


def usage():
    options = {"include_usage": True}
    stream = chat.create(model=MODEL, messages=HELLO, max_tokens=9, stream=True, stream_options=options)
    last = [chunk.usage for chunk in stream if chunk.usage][-1]
    assert last.total_tokens == last.prompt_tokens + 9


def errors():
    extra = {"enable_thinking": False}
    refused = raises(openai.BadRequestError, lambda: chat.create(model=MODEL, messages=HELLO, extra_body=extra))
    assert "extra_forbidden" in refused.response.text
    prompt = [5] * 9000
    long = raises(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt=prompt, max_tokens=1))
    assert "max_num_tokens (8192)" in long.response.text


def tools():
    answer = chat.create(model=MODEL, messages=HELLO, tools=TOOLS, tool_choice="required")
    assert answer.choices[0].finish_reason == "tool_calls"
    assert_weather(json.loads(answer.choices[0].message.tool_calls[0].function.arguments))


def structured_output():
    parsed = chat.parse(model=MODEL, messages=HELLO, response_format=Weather)
    assert 1 <= parsed.choices[0].message.parsed.days <= 7


run({"results": results, "usage": usage, "errors": errors, "tools": tools, "structured output": structured_output})
