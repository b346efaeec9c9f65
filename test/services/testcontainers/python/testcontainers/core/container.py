"""Stands in for a container of testcontainers 4.15, with the command of UNDERSTUDY in place of the image."""

import json
import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from .wait_strategies import HttpWaitStrategy


class DockerContainer:
    def __init__(self, image: str) -> None:
        assert image.startswith("llm-understudy:")

    def with_command(self, command: str) -> "DockerContainer":
        self.command = command
        return self

    def with_exposed_ports(self, port: int) -> "DockerContainer":
        self.port = port
        return self

    def waiting_for(self, strategy: HttpWaitStrategy) -> "DockerContainer":
        self.strategy = strategy
        return self

    def __enter__(self) -> "DockerContainer":
        ready = Path(tempfile.mkdtemp(prefix="understudy-container-")) / "ready.json"
        words = ["--port=0", "--host=127.0.0.1", "--exit-with-parent", f"--ready-file={ready}"]
        command = [*os.environ["UNDERSTUDY"].split(), *shlex.split(self.command), *words]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not ready.exists():
            assert self.process.poll() is None, "the command ended"
            time.sleep(0.02)
        url = json.loads(ready.read_text())["url"]
        ready.unlink()
        ready.parent.rmdir()
        self.mapped = int(url.rsplit(":", 1)[1])
        assert self.strategy.port == self.port
        urlopen(url + self.strategy.path).read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait()

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        assert port == self.port
        return self.mapped
