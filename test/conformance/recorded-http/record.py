"""Records what uvicorn writes back, byte by byte, and what it warns of in its log: python record.py

uvicorn 0.54.0, httptools 0.9.0, uvloop 0.23.0, Python 3.11, with websockets, as `fastapi[standard]` installs them for vLLM.
"""

import asyncio
import json
import logging
import pathlib
import re
import socket
import threading

import uvicorn

WARNED = []


class Warned(logging.Handler):
    def emit(self, record):
        WARNED.append(record.getMessage())


HERE = pathlib.Path(__file__).parent
JSON = [(b"content-length", b"20"), (b"content-type", b"application/json"), (b"vary", b"Origin")]


async def body_of(receive):
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def app(scope, receive, send):
    """What test/conformance/http1-recorded.test.ts has its own application do."""

    async def answer(status, body, headers):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def text(status, body):
        await answer(status, body, [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain")])

    path = scope["path"]
    if path == "/version":
        await answer(200, b'{"version":"0.33.0"}', JSON)
    elif path == "/head":
        names = ("x", "y", "host")
        given = {name.decode(): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        shown = [scope["method"], scope["http_version"], scope["query_string"].decode()]
        await text(200, json.dumps(shown + [given.get(name) for name in names], ensure_ascii=False).encode("latin-1"))
    elif path == "/echo":
        await text(200, await body_of(receive) or b"")
    elif path == "/slow":
        await asyncio.sleep(0.05)
        await text(200, b"slow " + scope["query_string"])
    elif path == "/stream":
        await body_of(receive)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for i in range(3):
            await send({"type": "http.response.body", "body": b"data: %d\n\n" % i, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    elif path == "/none":
        await answer(204, b"", [])
    elif path == "/last":
        await answer(400, b"bye", [(b"content-length", b"3"), (b"connection", b"close")])
    else:
        await text(404, b"unknown")


async def talk(port, parts):
    """All that comes until the server closes or has been silent for a while, and whether it closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received, closed = b"", False
    for part in parts:
        writer.write(part.encode("latin-1"))
        await asyncio.sleep(0.02)
    while not closed:
        try:
            piece = await asyncio.wait_for(reader.read(65536), 0.25)
        except asyncio.TimeoutError:
            break
        except ConnectionResetError:
            piece = b""
        closed = piece == b""
        received += piece
    writer.close()
    return re.sub("date: [^\r]+", "date: <date>", received.decode("latin-1")), closed


async def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(app, port=port, http="httptools", log_config=None, log_level="warning", loop="uvloop", ws="auto")
    log = logging.getLogger("uvicorn.error")
    log.addHandler(Warned(logging.WARNING))
    log.propagate = False
    threading.Thread(target=uvicorn.Server(config).run, daemon=True).start()
    await asyncio.sleep(1)
    cases = json.loads((HERE / "sent.json").read_text())
    out = []
    for name, parts in cases.items():
        WARNED.clear()
        received, closed = await talk(port, parts)
        out.append({"name": name, "sent": parts, "received": received, "closed": closed, "warned": list(WARNED)})
    (HERE / "uvicorn-0.54.json").write_text(json.dumps(out, indent=1) + "\n")
    print(len(out))


asyncio.run(main())
