"""litellm against an OpenAI-compatible server."""
import litellm
from driver import HELLO, run
from openai import OpenAIError

litellm.suppress_debug_info = True


def ask(asked, seen):
    tools = {"tools": asked["tools"]} if "tools" in asked else {}
    for chunk in litellm.completion(
        model="openai/m",
        api_base=asked["baseUrl"],
        api_key="none",
        messages=HELLO,
        stream=True,
        stream_options={"include_usage": True},
        timeout=asked["timeoutMs"] / 1000,
        **tools,
    ):
        seen.chunk(chunk)


# Its errors are kinds of openai's.
run(ask, OpenAIError)
