"""A client of `understudy stress` that stays alive (understudy-client/1): reads a case per line, writes what it saw."""
import asyncio
import inspect
import json
import sys

HELLO = [{"role": "user", "content": "Say it"}]
OUT = sys.stdout
# What libraries print is none of the answers.
sys.stdout = sys.stderr


class Seen:
    """What an answer has said so far, and stays what it said where an error ends it."""

    def __init__(self):
        self.text = ""
        self.finish = None
        self.usage = None
        self.calls = {}

    def chunk(self, chunk):
        """A chunk of OpenAI's chat, as a client's own object."""
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.usage = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
        for choice in chunk.choices or []:
            if (choice.index or 0) != 0:
                continue
            delta = choice.delta
            if delta is not None:
                self.text += delta.content or ""
                for call in getattr(delta, "tool_calls", None) or []:
                    function = call.function
                    self.call(call.index, getattr(function, "name", None), getattr(function, "arguments", None))
            self.finish = choice.finish_reason or self.finish

    def call(self, index, name, arguments):
        """A piece of a call. A name that comes again is the same name; arguments may be an object."""
        known = self.calls.setdefault(index, {"name": "", "arguments": ""})
        if name != known["name"]:
            known["name"] += name or ""
        known["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""

    def line(self, error, own):
        calls = list(self.calls.values()) or None
        said = {"text": self.text, "finish": self.finish, "usage": self.usage, "toolCalls": calls, "error": None}
        if error is not None:
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            said["error"] = {"kind": kind, "message": str(error)[:300], "own": isinstance(error, own)}
        return said


def run(ask, own):
    """`ask(asked, seen)` asks once, and fills in what it sees; errors of `own` are the client's own kind."""
    loop = asyncio.new_event_loop() if inspect.iscoroutinefunction(ask) else None
    for line in sys.stdin:
        asked = json.loads(line)
        seen, error = Seen(), None
        try:
            if loop is None:
                ask(asked, seen)
            else:
                loop.run_until_complete(ask(asked, seen))
        except Exception as why:
            error = why
        OUT.write(json.dumps(seen.line(error, own), ensure_ascii=True) + "\n")
        OUT.flush()
