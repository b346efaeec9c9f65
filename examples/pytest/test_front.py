"""Tests answers of a real front end of vLLM: `FRONT_END="vllm-rs serve MODEL" pytest examples/pytest`. Without it they are skipped."""

import json
import urllib.request


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_an_answer_is_as_long_as_asked_for(front):
    [model] = fetch(f"{front}/v1/models")["data"]
    answer = fetch(f"{front}/v1/completions", {"model": model["id"], "prompt": "Hello", "max_tokens": 8, "ignore_eos": True})
    assert answer["usage"]["completion_tokens"] == 8
