"""strands-agents on chats and on /v1/messages: an agent's turns, which raise where an answer does not end by itself."""
import asyncio
import json
import sys

from check import MODEL, URL, run, sample
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel
from strands.types.exceptions import MaxTokensReachedException

LIMIT = 4096
TURNS = 2


def model(kind, limit=LIMIT):
    if kind == "openai":
        arguments = {"base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0}
        return OpenAIModel(client_args=arguments, model_id=MODEL, params={"max_tokens": limit})
    arguments = {"base_url": URL, "api_key": "none", "max_retries": 0}
    return AnthropicModel(client_args=arguments, model_id=MODEL, max_tokens=limit)


called = []


@tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    called.append(city)
    return "sunny"


def agent(kind, **more):
    """With a tool: an agent without one sends an empty list of them to /v1/chat/completions, which vLLM refuses."""
    return Agent(model=model(kind, **more), tools=[weather], callback_handler=None)


async def ask(kind):
    """
    One agent, turn after turn, in one event loop (a call without await has its own, and Anthropic's client keeps a connection
    of the last one's): its end and its tokens, which count on from the turns before.
    """
    speaker = agent(kind)
    before = 0
    for _ in range(TURNS):
        answer = await speaker.invoke_async("Hello, who are you?")
        total = answer.metrics.accumulated_usage["outputTokens"]
        yield answer, total - before
        before = total


async def results():
    for kind in ("openai", "anthropic"):
        async for answer, tokens in ask(kind):
            assert answer.stop_reason == "end_turn" and tokens > 0, answer.stop_reason
            assert answer.message["content"][0]["text"]


async def usage():
    counted = "vllm:generation_tokens_total"
    for kind in ("openai", "anthropic"):
        before = sample(counted)
        tokens = sum([tokens async for _, tokens in ask(kind)])
        assert sample(counted) - before == tokens


async def errors():
    for kind in ("openai", "anthropic"):
        try:
            await agent(kind, limit=1).invoke_async("Hello")
        except MaxTokensReachedException:
            continue
        raise AssertionError("an answer of one token was taken for a whole one")


async def tools():
    for kind in ("openai", "anthropic"):
        called.clear()
        speaker = agent(kind)
        for _ in range(20):
            answer = await speaker.invoke_async("How is the weather?")
            assert answer.stop_reason == "end_turn", answer.stop_reason
            if called:
                break
        assert called and all(isinstance(city, str) for city in called)


async def own_ends():
    for kind in ("openai", "anthropic"):
        async for answer, tokens in ask(kind):
            print(json.dumps({"client": f"strands, {kind}", "end": answer.stop_reason, "tokens": tokens}), flush=True)


if sys.argv[2:] == ["own-ends"]:
    asyncio.run(own_ends())
else:
    run({"results": results, "usage": usage, "errors": errors, "tools": tools})
