"""Tests answers of the server. Run `pip install pytest`, then `pytest examples/pytest` in the checkout. OpenAI's client needs `base_url=f"{understudy}/v1"`."""

import http.client
import json
import urllib.request

import pytest


def chat(url, **fields):
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], **fields}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_an_answer_is_as_long_as_asked_for(understudy):
    answer = chat(understudy, max_tokens=8, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 8


def test_the_same_seed_gives_the_same_answer(understudy):
    first, second = (chat(understudy, max_tokens=16, seed=7) for _ in range(2))
    assert first["choices"][0]["message"] == second["choices"][0]["message"]


def test_a_stream_that_breaks_off_is_an_error(understudy):
    with pytest.raises(http.client.IncompleteRead):
        chat(understudy, stream=True, max_tokens=20, understudy={"fault": "E6@e5"})
