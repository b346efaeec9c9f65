"""openai for Python: chat, completions, responses, streams, its helpers, its errors and retries."""
import json

import openai
from check import ABORTS, HELLO, MODEL, URL, WEATHER, assert_weather, ended, raises, run, sample
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
    assert client.completions.create(model=MODEL, prompt="Once", max_tokens=5).choices[0].text
    assert client.models.list().data[0].id == MODEL


def usage():
    options = {"include_usage": True}
    stream = chat.create(model=MODEL, messages=HELLO, max_tokens=9, stream=True, stream_options=options)
    last = [chunk.usage for chunk in stream if chunk.usage][-1]
    assert last.completion_tokens == 9 and last.total_tokens == last.prompt_tokens + 9


def errors():
    missing = raises(openai.NotFoundError, lambda: chat.create(model="nobody", messages=HELLO))
    assert missing.type == "NotFoundError"
    bad = raises(openai.BadRequestError, lambda: chat.create(model=MODEL, messages=HELLO, temperature=-1))
    assert bad.param == "temperature"


def aborts():
    before = sample(ABORTS)
    with chat.create(model=MODEL, messages=HELLO, max_tokens=5000, stream=True) as stream:
        for seen, _ in enumerate(stream):
            if seen == 5:
                break
    ended(before)


def retries():
    messages = [{"role": "user", "content": "retry openai-python"}]
    refused = raises(openai.RateLimitError, lambda: chat.create(model=MODEL, messages=messages))
    assert refused.response.headers["retry-after"] == "1"
    answer = client.with_options(max_retries=2).chat.completions.create(model=MODEL, messages=messages)
    assert answer.choices[0].message.content == "At last"


def tools():
    named = {"type": "function", "function": {"name": "weather"}}
    whole = chat.create(model=MODEL, messages=HELLO, tools=TOOLS, tool_choice=named)
    assert_weather(json.loads(whole.choices[0].message.tool_calls[0].function.arguments))
    message = chat.create(model=MODEL, messages=HELLO, tools=TOOLS, tool_choice="required").choices[0].message
    answers = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls]
    history = [*HELLO, message.model_dump(exclude_none=True), *answers]
    after = chat.create(model=MODEL, messages=history, tools=TOOLS, tool_choice="none", max_tokens=12)
    assert after.choices[0].message.content


def structured():
    parsed = chat.parse(model=MODEL, messages=HELLO, response_format=Weather)
    assert_weather(parsed.choices[0].message.parsed.model_dump())


def helpers():
    with chat.stream(model=MODEL, messages=HELLO) as stream:
        pieces = "".join(event.delta for event in stream if event.type == "content.delta")
        assert stream.get_final_completion().choices[0].message.content == pieces


def responses():
    whole = client.responses.create(model=MODEL, input="Hello", max_output_tokens=24)
    assert whole.output_text and whole.usage.output_tokens <= 24
    with client.responses.stream(model=MODEL, input="Hello", max_output_tokens=24) as stream:
        numbers = [event.sequence_number for event in stream]
    assert numbers == sorted(set(numbers)) and len(numbers) > 5


run(
    {
        "results": results,
        "usage": usage,
        "errors": errors,
        "aborts": aborts,
        "retries": retries,
        "tools": tools,
        "structured output": structured,
        "streaming helpers": helpers,
        "responses": responses,
    }
)
