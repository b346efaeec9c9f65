"""openai for Python, asynchronous: many at once, streams, aborts, errors, responses."""
import asyncio

import openai
from check import ABORTS, HELLO, MODEL, URL, ended, run, sample


def connect(**options):
    return openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", **{"max_retries": 0, **options})


async def results():
    async with connect() as client:
        asked = {"model": MODEL, "messages": HELLO, "max_tokens": 20, "seed": 1}
        answers = await asyncio.gather(*(client.chat.completions.create(**asked) for _ in range(50)))
        assert len({answer.choices[0].message.content for answer in answers}) == 1
        text = ""
        async for chunk in await client.chat.completions.create(**asked, stream=True):
            text += chunk.choices[0].delta.content or ""
        assert text == answers[0].choices[0].message.content


async def usage():
    async with connect() as client:
        answer = await client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=9)
        assert answer.usage.completion_tokens == 9


async def errors():
    async with connect() as client:
        try:
            await client.chat.completions.create(model="nobody", messages=HELLO)
        except openai.NotFoundError:
            return
    raise AssertionError("no NotFoundError")


async def aborts():
    before = sample(ABORTS)
    async with connect() as client:
        asked = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=5000, stream=True)
        begun = asyncio.Event()

        async def read():
            async for _ in await asked:
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # In a thread: the loop has the socket to close.
        await asyncio.to_thread(ended, before)


async def retries():
    messages = [{"role": "user", "content": "retry openai-python-async"}]
    async with connect(max_retries=3) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=messages)
        assert answer.choices[0].message.content == "At last"


async def responses():
    async with connect() as client:
        numbers = []
        stream = await client.responses.create(model=MODEL, input="Hello", max_output_tokens=24, stream=True)
        async for event in stream:
            numbers.append(event.sequence_number)
        assert numbers == sorted(set(numbers)) and len(numbers) > 5


run(
    {
        "results": results,
        "usage": usage,
        "errors": errors,
        "aborts": aborts,
        "retries": retries,
        "responses": responses,
    }
)
