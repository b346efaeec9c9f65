"""The reader of aiperf: its HTTP client and its reader of chats, one request."""
import json

from aiperf.common.models import SSEMessage
from aiperf.transports.aiohttp_client import AioHttpClient
from driver import HELLO, run


class Failed(Exception):
    """What its record has as error."""


async def ask(asked, seen):
    body = {"model": asked["model"], "messages": HELLO, "stream": True, "stream_options": {"include_usage": True}}
    client = AioHttpClient(timeout=asked["timeoutMs"] / 1000)
    try:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        url = f"{asked['baseUrl']}/chat/completions"
        record = await client.post_request(url, json.dumps(body).encode(), headers)
    finally:
        await client.close()
    if record.error is not None:
        raise Failed(f"{record.error.type}: {record.error.message}")
    for message in record.responses:
        text = message.extract_data_content() if isinstance(message, SSEMessage) else message.text
        if not text or text == "[DONE]":
            continue
        try:
            chunk = json.loads(text)
        except ValueError as why:
            raise Failed(f"no JSON: {text[:80]}") from why
        for choice in chunk.get("choices") or []:
            if choice.get("index", 0) == 0:
                seen.text += (choice.get("delta") or choice.get("message") or {}).get("content") or ""
                seen.finish = choice.get("finish_reason") or seen.finish
        if chunk.get("usage"):
            usage = chunk["usage"]
            seen.usage = {"prompt": usage["prompt_tokens"], "completion": usage["completion_tokens"]}


run(ask, Failed)
