"""A server per test session: started on a free port, waited for, ended with the session. Needs pytest alone."""

import re
import subprocess
import time
from pathlib import Path

import pytest

# In your own project: Path("/path/to/understudy/bin/understudy"), or of an install with npm Path("node_modules/.bin/understudy").
COMMAND = Path(__file__).parents[2] / "bin" / "understudy"
START_S = 30


@pytest.fixture(scope="session")
def understudy(tmp_path_factory):
    """URL of a server that answers."""
    if not COMMAND.exists():
        pytest.fail(f"set COMMAND in conftest.py: {COMMAND} is not there")
    log = tmp_path_factory.mktemp("understudy") / "server.log"
    with log.open("w") as output:
        # Not a pipe: whoever does not read it would stop the server after a while.
        server = subprocess.Popen(
            [COMMAND, "serve", "--port", "0", "--timing", "constant:ttft=20ms,itl=2ms"],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _url(server, log)
    finally:
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()


def _url(server, log):
    """The line `listening` comes when requests are taken, and says the port."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = re.search(r"^  listening +(\S+)", log.read_text(), re.MULTILINE)
        if found:
            return found[1]
        if server.poll() is not None:
            pytest.fail(f"the server ended with {server.returncode}: {log.read_text()}")
        time.sleep(0.05)
    pytest.fail(f"the server was not there after {START_S} s: {log.read_text()}")
