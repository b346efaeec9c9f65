"""openai for Python, asynchronous."""
import openai
from driver import HELLO, run

clients = {}


async def ask(asked, seen):
    client = clients.pop(asked["case"], None) or openai.AsyncOpenAI(
        base_url=asked["baseUrl"], api_key="none", timeout=asked["timeoutMs"] / 1000
    )
    tools = {"tools": asked["tools"]} if "tools" in asked else {}
    try:
        options = {"include_usage": True}
        stream = await client.chat.completions.create(
            model=asked["model"], messages=HELLO, stream=True, stream_options=options, **tools
        )
        async for chunk in stream:
            seen.chunk(chunk)
    finally:
        if asked["more"]:
            clients[asked["case"]] = client
        else:
            await client.close()


run(ask, openai.OpenAIError)
