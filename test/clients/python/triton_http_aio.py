"""tritonclient.http.aio against a Triton server of ours: results side by side, metadata, errors, a call that is given up."""
import asyncio

import numpy as np
import tritonclient.http as httpclient
from check import URL, run
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException


def text_input(name, text):
    made = httpclient.InferInput(name, [1], "BYTES")
    made.set_data_from_numpy(np.array([text.encode()], dtype=object))
    return made


def number_input(name, value):
    made = httpclient.InferInput(name, [1], "INT32")
    made.set_data_from_numpy(np.array([value], dtype=np.int32))
    return made


async def results():
    async with aio.InferenceServerClient(URL) as client:
        asked = [client.infer("plain", [text_input("text_input", f"n{at}")]) for at in range(50)]
        answers = await asyncio.gather(*asked)
        assert [one.as_numpy("text_output")[0] for one in answers] == [f"N{at}".encode() for at in range(50)]
        packed = await client.infer(
            "plain",
            [text_input("text_input", "a" * 5000)],
            request_compression_algorithm="gzip",
            response_compression_algorithm="deflate",
        )
        assert packed.as_numpy("text_output")[0] == b"A" * 5000


async def server():
    async with aio.InferenceServerClient(URL) as client:
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("plain") and not await client.is_model_ready("nope")
        assert (await client.get_model_metadata("batched"))["platform"] == "python"
        assert (await client.get_model_config("batched"))["max_batch_size"] == 8
        stats = (await client.get_inference_statistics("plain"))["model_stats"]
        assert [one["name"] for one in stats] == ["plain"]


async def errors():
    async with aio.InferenceServerClient(URL) as client:
        try:
            await client.infer("nope", [])
        except InferenceServerException as error:
            assert error.status() == "400" and "unknown model" in error.message(), error
        else:
            raise AssertionError("no error")


async def given_up():
    async with aio.InferenceServerClient(URL) as client:
        slow = [text_input("text_input", "a"), number_input("sleep_ms", 400)]
        call = asyncio.create_task(client.infer("plain", slow))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        after = await client.infer("plain", [text_input("text_input", "b")])
        assert after.as_numpy("text_output")[0] == b"B"


run({"results": results, "server": server, "errors": errors, "given up": given_up})
