"""httpx over h2, the HTTP/2 client of Python: reads cases, a line each, on one connection as long as it lasts; says what it saw."""
import json
import sys

import httpx


def connected():
    return httpx.Client(http1=False, http2=True, timeout=10)


def ask(client, case, seen):
    with client.stream("POST", case["url"], json=case["body"]) as response:
        seen |= {"version": response.http_version, "status": response.status_code}
        for part in response.iter_bytes():
            seen["text"] += part.decode("latin-1")


client = connected()
for line in sys.stdin:
    seen = {"version": None, "status": None, "text": "", "error": None}
    try:
        ask(client, json.loads(line), seen)
    except Exception as error:
        seen["error"] = f"{type(error).__name__}: {error}"
        # Whatever else went wrong leaves its connection in the pool, and useless.
        if "StreamReset" not in seen["error"]:
            client = connected()
    print(json.dumps(seen), flush=True)
