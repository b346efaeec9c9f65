"""Runs the checks of a client one after the other; a line of JSON each: `check`, and `error` where it failed."""
import inspect
import json
import sys
import time
import traceback
import urllib.request

URL = sys.argv[1]
MODEL = "m"
HELLO = [{"role": "user", "content": "Hello, who are you?"}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def assert_weather(value):
    assert sorted(value) == ["city", "days"], value
    assert isinstance(value["city"], str) and 1 <= value["days"] <= 7, value


def sample(series):
    """One sample of the server's own page."""
    with urllib.request.urlopen(f"{URL}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith(series):
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {series}")


ABORTS = 'understudy_requests_total{outcome="abort"}'


def ended(before):
    """What the client left must end on the server: nothing runs any more, and one abort more is counted."""
    for _ in range(300):
        if sample("vllm:num_requests_running") == 0 and sample(ABORTS) == before + 1:
            return
        time.sleep(0.01)
    raise AssertionError("the request goes on")


def raises(kind, work):
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def run(checks):
    """All of them, or those that the command line names after the URL."""
    for name, work in checks.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        try:
            result = work()
            if inspect.isawaitable(result):
                import asyncio

                asyncio.run(result)
            print(json.dumps({"check": name}), flush=True)
        except Exception:
            print(json.dumps({"check": name, "error": traceback.format_exc()[-2000:]}), flush=True)
