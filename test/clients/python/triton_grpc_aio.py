"""tritonclient.grpc.aio against a Triton server of ours: results side by side, errors, streams, cancellation."""
import asyncio

import numpy as np
import tritonclient.grpc as grpcclient
from check import URL, run
from tritonclient.grpc import aio
from tritonclient.utils import InferenceServerException


def text_input(name, text):
    made = grpcclient.InferInput(name, [1], "BYTES")
    made.set_data_from_numpy(np.array([text.encode()], dtype=object))
    return made


def number_input(name, value):
    made = grpcclient.InferInput(name, [1], "INT32")
    made.set_data_from_numpy(np.array([value], dtype=np.int32))
    return made


async def results():
    async with aio.InferenceServerClient(URL) as client:
        asked = [client.infer("plain", [text_input("text_input", f"n{at}")]) for at in range(50)]
        answers = await asyncio.gather(*asked)
        assert [one.as_numpy("text_output")[0] for one in answers] == [f"N{at}".encode() for at in range(50)]
        assert await client.is_server_ready() and not await client.is_model_ready("nope")


async def errors():
    async with aio.InferenceServerClient(URL) as client:
        try:
            await client.infer("nope", [])
        except InferenceServerException as error:
            assert error.status() == "StatusCode.INVALID_ARGUMENT", error
        else:
            raise AssertionError("no error")


def requests(*all):
    async def made():
        for one in all:
            yield one

    return made()


async def stream():
    async with aio.InferenceServerClient(URL) as client:
        one = {"model_name": "tokens", "inputs": [text_input("text_input", "a b c")], "request_id": "r"}
        other = {"model_name": "nope", "inputs": [], "request_id": "u"}
        texts, said = [], []
        async for result, error in client.stream_infer(requests(one, other)):
            if error is not None:
                said.append(error.message())
            else:
                texts.append(result.as_numpy("text_output")[0])
        assert texts == [b"a", b" b", b" c"] and len(said) == 1, (texts, said)


async def cancel():
    async with aio.InferenceServerClient(URL) as client:
        slow = [text_input("text_input", "a b c d e f"), number_input("sleep_ms", 100)]
        answers = client.stream_infer(requests({"model_name": "tokens", "inputs": slow}))
        result, error = await anext(aiter(answers))
        assert error is None and result.as_numpy("text_output")[0] == b"a"
        assert answers.cancel()
        await asyncio.sleep(0.3)
        assert await client.is_server_ready()


run({"results": results, "errors": errors, "stream": stream, "cancel": cancel})
