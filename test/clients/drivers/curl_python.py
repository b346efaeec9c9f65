"""curl: its bytes and its exit code; the events in them are read here by the WHATWG's text, line by line."""
import json
import re
import subprocess

from driver import HELLO, run


class CurlError(Exception):
    """curl's exit code, or what the stream says."""


def ask(asked, seen):
    body = json.dumps({"model": asked["model"], "messages": HELLO, "stream": True})
    words = ["curl", "--silent", "--show-error", "--no-buffer", "--fail-with-body", "--compressed", "--location"]
    words += ["--speed-limit", "1", "--speed-time", str(max(1, asked["timeoutMs"] // 1000)), "--post307", "--post308"]
    words = [word for word in words if not word.startswith("--post")]
    words += ["--header", "content-type: application/json", "--data", body, f"{asked['baseUrl']}/chat/completions"]
    done = subprocess.run(words, capture_output=True)
    events(done.stdout.decode("utf-8-sig", "replace"), seen)
    if done.returncode != 0:
        raise CurlError(f"{done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    if seen.finish is None:
        raise CurlError("no finish reason")


def events(text, seen):
    for block in re.split(r"(?:\r\n|\r|\n)(?:\r\n|\r|\n)", text):
        data = []
        for line in re.split(r"\r\n|\r|\n", block):
            field, _, value = line.partition(":")
            if field == "data":
                data.append(value[1:] if value.startswith(" ") else value)
        joined = "\n".join(data)
        if joined == "[DONE]":
            return
        if joined == "":
            continue
        try:
            chunk = json.loads(joined)
        except ValueError as why:
            raise CurlError(f"no JSON: {joined[:80]}") from why
        if "error" in chunk or re.search(r"^event: ?error", block, re.MULTILINE):
            raise CurlError(joined)
        for choice in chunk.get("choices") or []:
            if choice.get("index", 0) == 0:
                seen.text += (choice.get("delta") or {}).get("content") or ""
                seen.finish = choice.get("finish_reason") or seen.finish


run(ask, CurlError)
