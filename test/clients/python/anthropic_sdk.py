"""anthropic for Python on /v1/messages."""
import anthropic
from check import ABORTS, HELLO, MODEL, URL, WEATHER, assert_weather, ended, raises, run, sample

client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
TOOLS = [{"name": "weather", "description": "The weather", "input_schema": WEATHER}]


def results():
    whole = client.messages.create(model=MODEL, messages=HELLO, max_tokens=20)
    assert whole.stop_reason == "max_tokens" and whole.content[0].text


def usage():
    whole = client.messages.create(model=MODEL, messages=HELLO, max_tokens=9)
    counted = client.messages.count_tokens(model=MODEL, messages=HELLO)
    assert whole.usage.output_tokens == 9 and whole.usage.input_tokens == counted.input_tokens


def errors():
    ask = client.messages.create
    raises(anthropic.NotFoundError, lambda: ask(model="nobody", messages=HELLO, max_tokens=5))
    raises(anthropic.BadRequestError, lambda: ask(model=MODEL, messages=HELLO, max_tokens=-5))


def aborts():
    before = sample(ABORTS)
    with client.messages.create(model=MODEL, messages=HELLO, max_tokens=5000, stream=True) as stream:
        for seen, _ in enumerate(stream):
            if seen == 8:
                break
    ended(before)


def retries():
    messages = [{"role": "user", "content": "retry anthropic-python"}]
    patient = client.with_options(max_retries=3)
    assert patient.messages.create(model=MODEL, messages=messages, max_tokens=20).content[0].text == "At last"


def tools():
    choice = {"type": "tool", "name": "weather"}
    whole = client.messages.create(model=MODEL, messages=HELLO, max_tokens=300, tools=TOOLS, tool_choice=choice)
    use = next(block for block in whole.content if block.type == "tool_use")
    assert use.name == "weather" and whole.stop_reason == "tool_use"
    assert_weather(use.input)


def helpers():
    with client.messages.stream(model=MODEL, messages=HELLO, max_tokens=16) as stream:
        pieces = "".join(stream.text_stream)
        assert stream.get_final_message().content[0].text == pieces


run(
    {
        "results": results,
        "usage": usage,
        "errors": errors,
        "aborts": aborts,
        "retries": retries,
        "tools": tools,
        "streaming helpers": helpers,
    }
)
