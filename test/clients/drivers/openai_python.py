"""openai for Python, synchronous."""
import openai
from driver import HELLO, run

clients = {}


def ask(asked, seen):
    # Kept while it is to ask again in the same case: so are its connections.
    client = clients.pop(asked["case"], None) or openai.OpenAI(
        base_url=asked["baseUrl"], api_key="none", timeout=asked["timeoutMs"] / 1000
    )
    tools = {"tools": asked["tools"]} if "tools" in asked else {}
    try:
        options = {"include_usage": True}
        for chunk in client.chat.completions.create(
            model=asked["model"], messages=HELLO, stream=True, stream_options=options, **tools
        ):
            seen.chunk(chunk)
    finally:
        if asked["more"]:
            clients[asked["case"]] = client
        else:
            client.close()


run(ask, openai.OpenAIError)
