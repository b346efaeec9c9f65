"""Stands in for the wait strategy of testcontainers 4.15 that examples/testcontainers/test_server.py uses."""


class HttpWaitStrategy:
    def __init__(self, port: int, path: str = "/") -> None:
        self.port = port
        self.path = path
