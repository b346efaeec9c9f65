"""The real `openai` Python client against a server: prints one JSON object of what it saw. Usage: client.py URL"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id
seen = {"model": model}

whole = client.chat.completions.create(
    model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=12, seed=7
)
seen["whole"] = whole.choices[0].message.content
seen["usage"] = [whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens]
seen["finish"] = whole.choices[0].finish_reason

text, chunks, usage, finish = "", 0, None, None
for chunk in client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "Hello"}],
    max_tokens=12,
    seed=7,
    stream=True,
    stream_options={"include_usage": True},
):
    if chunk.usage:
        usage = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens, chunk.usage.total_tokens]
    for choice in chunk.choices:
        text += choice.delta.content or ""
        chunks += 1
        finish = choice.finish_reason or finish
seen["streamed"] = {"text": text, "chunks": chunks, "usage": usage, "finish": finish}

completion = client.completions.create(model=model, prompt="Once upon a time", max_tokens=5, seed=3)
seen["completion"] = completion.choices[0].text
parts = client.completions.create(model=model, prompt="Once upon a time", max_tokens=5, seed=3, stream=True)
seen["completionStreamed"] = "".join(chunk.choices[0].text for chunk in parts)

errors = {}
for name, call in {
    "unknownModel": lambda: client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "x"}]),
    "badTemperature": lambda: client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "x"}], temperature=-1
    ),
}.items():
    try:
        call()
    except openai.APIStatusError as error:
        errors[name] = [type(error).__name__, error.status_code, error.body["message"]]
seen["errors"] = errors
print(json.dumps(seen))
