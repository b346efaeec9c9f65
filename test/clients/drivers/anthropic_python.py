"""anthropic for Python, its stream of events on /v1/messages."""
import anthropic
from driver import HELLO, run

clients = {}


def ask(asked, seen):
    client = clients.pop(asked["case"], None) or anthropic.Anthropic(
        base_url=asked["anthropicBaseUrl"], api_key="none", timeout=asked["timeoutMs"] / 1000
    )
    try:
        prompt = 0
        for event in client.messages.create(model=asked["model"], messages=HELLO, max_tokens=200, stream=True):
            if event.type == "message_start":
                prompt = event.message.usage.input_tokens
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                seen.text += event.delta.text
            elif event.type == "message_delta":
                seen.finish = event.delta.stop_reason
                seen.usage = {"prompt": prompt, "completion": event.usage.output_tokens}
    finally:
        if asked["more"]:
            clients[asked["case"]] = client
        else:
            client.close()


run(ask, anthropic.AnthropicError)
