"""Starts a server on a free port for the test session, waits until it is ready, and ends it after the session. Needs only pytest."""

import json
import subprocess
import time
from pathlib import Path

import pytest

# In your own project: Path("/path/to/understudy/bin/understudy"), or of an install with npm Path("node_modules/.bin/understudy").
COMMAND = Path(__file__).parents[2] / "bin" / "understudy"
FLAGS = ["--port", "0", "--timing", "constant:ttft=20ms,itl=2ms", "--exit-with-parent", "--ready-file"]
START_S = 30


@pytest.fixture(scope="session")
def understudy(tmp_path_factory):
    """URL of a server that answers. Its file is there, and complete, when it takes requests."""
    ready = tmp_path_factory.mktemp("understudy") / "ready.json"
    server = subprocess.Popen([COMMAND, "serve", *FLAGS, ready], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_S
    while not ready.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"no server after {START_S} s at most, exit code {server.poll()}")
        time.sleep(0.05)
    yield json.loads(ready.read_text())["url"]
    server.terminate()
    server.wait(timeout=10)
