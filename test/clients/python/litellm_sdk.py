"""litellm with an OpenAI-compatible server."""
import json

import litellm
from check import ABORTS, HELLO, URL, WEATHER, assert_weather, ended, raises, run, sample

TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": WEATHER}}]


def ask(**options):
    asked = {"model": "openai/m", "api_base": f"{URL}/v1", "api_key": "none", "messages": HELLO, "num_retries": 0}
    return litellm.completion(**{**asked, **options})


def results():
    whole = ask(max_tokens=20, seed=1)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in ask(max_tokens=20, seed=1, stream=True))
    assert text == whole.choices[0].message.content


def usage():
    assert ask(max_tokens=9).usage.completion_tokens == 9


def errors():
    raises(litellm.NotFoundError, lambda: ask(model="openai/nobody", max_retries=0))
    raises(litellm.BadRequestError, lambda: ask(temperature=-1, max_retries=0))


def aborts():
    before = sample(ABORTS)
    stream = ask(max_tokens=5000, stream=True)
    for seen, _ in enumerate(stream):
        if seen == 5:
            break
    stream.completion_stream.response.close()
    ended(before)


def tools():
    named = {"type": "function", "function": {"name": "weather"}}
    call = ask(tools=TOOLS, tool_choice=named).choices[0].message.tool_calls[0]
    assert_weather(json.loads(call.function.arguments))


def structured():
    schema = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER, "strict": True}}
    assert_weather(json.loads(ask(response_format=schema).choices[0].message.content))


run(
    {
        "results": results,
        "usage": usage,
        "errors": errors,
        "aborts": aborts,
        "tools": tools,
        "structured output": structured,
    }
)
