"""Subscribes to KV events with pyzmq. Reads orders as lines of JSON, and answers each with a line of JSON."""

import json
import sys
import time

import zmq

context = zmq.Context()
sockets = {}


def subscribe(names, endpoint, topic="", hwm=0):
    for name in names:
        socket = context.socket(zmq.SUB)
        socket.setsockopt(zmq.RCVHWM, hwm)
        socket.setsockopt(zmq.LINGER, 0)
        if hwm:
            socket.setsockopt(zmq.RCVBUF, 4096)
        socket.connect(endpoint)
        socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        sockets[name] = socket
    return {}


def read(names, until=None, seconds=10.0):
    """Reads until each socket has a message of this sequence, or until no message has come for half a second."""
    found = {name: [] for name in names}
    end = time.time() + seconds
    for name in names:
        while time.time() < end:
            if not sockets[name].poll(500):
                if until is None:
                    break
                continue
            topic, sequence, payload = sockets[name].recv_multipart()
            found[name].append([topic.decode(), int.from_bytes(sequence, "big"), payload.hex()])
            if until is not None and found[name][-1][1] >= until:
                break
    return {"messages": found}


def replay(endpoint, start):
    """Asks for a replay with a DEALER, because a REQ reads one reply only."""
    messages = []
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.setsockopt(zmq.RCVHWM, 0)
    dealer.connect(endpoint)
    dealer.send_multipart((b"", start.to_bytes(8, "big")))
    while dealer.poll(5000):
        _, topic, sequence, payload = dealer.recv_multipart()
        if sequence == b"\xff" * 8:
            dealer.close()
            return {"messages": messages, "ended": True}
        messages.append([topic.decode(), int.from_bytes(sequence, "big"), payload.hex()])
    return {"messages": messages, "ended": False}


def first_reply(endpoint, start):
    """Asks as vLLM's example subscriber does, with a REQ socket, and reads what it can."""
    socket = context.socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    socket.send(start.to_bytes(8, "big"))
    frames = socket.recv_multipart() if socket.poll(5000) else []
    socket.close()
    return {"frames": [frame.hex() for frame in frames]}


def close(names):
    for name in names:
        sockets.pop(name).close()
    return {}


ORDERS = {"subscribe": subscribe, "read": read, "replay": replay, "first_reply": first_reply, "close": close}
for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps(ORDERS[order.pop("order")](**order)), flush=True)
