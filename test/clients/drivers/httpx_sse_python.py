"""httpx-sse: what a user of it writes, by its README; the chunks are read as OpenAI's reference has them."""
import json

import httpx
from driver import HELLO, run
from httpx_sse import connect_sse


class Incomplete(Exception):
    """The user's own: httpx-sse knows no ends."""


class Refused(Exception):
    """The user's own, for an error that the stream says."""


def ask(asked, seen):
    body = {"model": asked["model"], "messages": HELLO, "stream": True}
    with httpx.Client(timeout=asked["timeoutMs"] / 1000) as client:
        with connect_sse(client, "POST", f"{asked['baseUrl']}/chat/completions", json=body) as source:
            source.response.raise_for_status()
            for event in source.iter_sse():
                if event.data == "[DONE]":
                    break
                if event.data == "":
                    continue
                chunk = json.loads(event.data)
                if event.event == "error" or "error" in chunk:
                    raise Refused(event.data)
                take(chunk, seen)
    if seen.finish is None:
        raise Incomplete("no finish reason")


def take(chunk, seen):
    for choice in chunk.get("choices") or []:
        if choice.get("index", 0) == 0:
            delta = choice.get("delta") or {}
            seen.text += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                function = call.get("function") or {}
                seen.call(call.get("index"), function.get("name"), function.get("arguments"))
            seen.finish = choice.get("finish_reason") or seen.finish
    usage = chunk.get("usage")
    if usage:
        seen.usage = {"prompt": usage["prompt_tokens"], "completion": usage["completion_tokens"]}


run(ask, (httpx.HTTPError, Incomplete, Refused, json.JSONDecodeError))
