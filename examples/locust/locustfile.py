"""Streams chats. Reports the time to the headers ("chat"), to the first token, and of the whole answer, in milliseconds."""

import json
import time

from locust import HttpUser, constant, task

BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 16,
    "stream": True,
}


class Chat(HttpUser):
    wait_time = constant(0.1)

    @task
    def stream(self) -> None:
        start = time.perf_counter()
        has_token = is_done = False
        with self.client.post("/v1/chat/completions", json=BODY, stream=True, catch_response=True, name="chat") as answer:
            if answer.status_code != 200:
                answer.failure(f"status {answer.status_code}")
                return
            for line in answer.iter_lines():
                is_done = is_done or line == b"data: [DONE]"
                if has_token or is_done or not line.startswith(b"data: "):
                    continue
                choices = json.loads(line[6:]).get("choices")
                if choices and choices[0]["delta"].get("content"):
                    has_token = True
                    self.report("first token", start)
            if is_done:
                answer.success()
                self.report("whole answer", start)
            else:
                answer.failure("the stream ended early")

    def report(self, name: str, start: float) -> None:
        took_ms = (time.perf_counter() - start) * 1000
        self.environment.events.request.fire(
            request_type="SSE", name=name, response_time=took_ms, response_length=0, exception=None
        )
