"""langchain-openai's ChatOpenAI, streamed. Errors pass through it as openai's."""
from driver import HELLO, run
from langchain_openai import ChatOpenAI
from openai import OpenAIError

REASONS = {"stop", "length", "tool_calls", "content_filter"}


def ask(asked, seen):
    chat = ChatOpenAI(
        model=asked["model"],
        base_url=asked["baseUrl"],
        api_key="none",
        timeout=asked["timeoutMs"] / 1000,
        stream_usage=True,
    )
    if "tools" in asked:
        chat = chat.bind_tools(asked["tools"])
    whole = None
    for chunk in chat.stream([("user", HELLO[0]["content"])]):
        seen.text += chunk.text if isinstance(chunk.text, str) else chunk.text()
        whole = chunk if whole is None else whole + chunk
        reason = chunk.response_metadata.get("finish_reason")
        seen.finish = reason if reason in REASONS else seen.finish
        if chunk.usage_metadata is not None:
            usage = chunk.usage_metadata
            seen.usage = {"prompt": usage["input_tokens"], "completion": usage["output_tokens"]}
    for at, call in enumerate(whole.tool_call_chunks if whole is not None else []):
        seen.call(at, call["name"], call["args"])


run(ask, OpenAIError)
