"""Starts programs on free ports for the test session, waits until they are ready, and ends them afterwards. Needs only pytest."""

import contextlib
import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

# In your own project: Path("/path/to/understudy/bin/understudy"), or of an install with npm Path("node_modules/.bin/understudy").
COMMAND = Path(__file__).parents[2] / "bin" / "understudy"
FLAGS = ["--timing", "constant:ttft=20ms,itl=2ms", "--exit-with-parent", "--ready-file"]
# A front end of vLLM, for example "vllm-rs serve /models/small".
FRONT_END = shlex.split(os.environ.get("FRONT_END", ""))
START_S = 120 if FRONT_END else 30


@contextlib.contextmanager
def started(command, ready):
    """URL of a server that answers. Its file is there, and complete, when it takes requests."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_S
    while not ready.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.terminate()
            pytest.fail(f"no server after {START_S} s at most, exit code {server.poll()}")
        time.sleep(0.05)
    yield json.loads(ready.read_text())["url"]
    server.terminate()
    server.wait(timeout=20)


@pytest.fixture(scope="session")
def understudy(tmp_path_factory):
    """URL of a server of Understudy."""
    ready = tmp_path_factory.mktemp("understudy") / "ready.json"
    with started([COMMAND, "serve", "--port", "0", *FLAGS, ready], ready) as url:
        yield url


@pytest.fixture(scope="session")
def front(tmp_path_factory):
    """URL of a real front end of vLLM with Understudy's engine behind it. Skips its tests if FRONT_END names none."""
    if not FRONT_END:
        pytest.skip("FRONT_END names no front end, as in vllm-rs serve MODEL")
    ready = tmp_path_factory.mktemp("front") / "ready.json"
    with started([COMMAND, "front", "--free-port", *FLAGS, ready, "--", *FRONT_END], ready) as url:
        yield url
