"""tritonclient.http against a Triton server of ours: results of any type, metadata, errors, retries, models, shared memory."""
import time

import numpy as np
import tritonclient.http as httpclient
from check import URL, raises, run
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

client = httpclient.InferenceServerClient(URL, concurrency=20)


def made(name, values, datatype, binary=True):
    array = np.array(values)
    one = httpclient.InferInput(name, list(array.shape), datatype)
    one.set_data_from_numpy(array, binary_data=binary)
    return one


def text_input(name, text):
    return made(name, np.array([text.encode()], dtype=object), "BYTES")


def number_input(name, value):
    return made(name, np.array([value], dtype=np.int32), "INT32")


def sums(binary=True, **asked):
    inputs = [
        made("A", np.array([[1, 2]], dtype=np.int32), "INT32", binary),
        made("B", np.array([[30, 40]], dtype=np.int32), "INT32", binary),
    ]
    return client.infer("batched", inputs, **asked)


def results():
    for binary in (True, False):
        answer = sums(binary, request_id="7", priority=1, timeout=1_000_000, parameters={"a": 1, "b": True, "c": "x"})
        assert answer.as_numpy("SUM").tolist() == [[31, 42]] and answer.as_numpy("DIFF").tolist() == [[-29, -38]]
        assert answer.get_response()["id"] == "7"
        outputs = [httpclient.InferRequestedOutput("DIFF", binary_data=binary)]
        only = sums(binary, outputs=outputs)
        assert only.as_numpy("SUM") is None and only.as_numpy("DIFF").tolist() == [[-29, -38]]
    best = sums(outputs=[httpclient.InferRequestedOutput("SUM", class_count=1)])
    assert best.as_numpy("SUM").tolist() == [[b"42:1"]], best.as_numpy("SUM")
    for packing in ("gzip", "deflate"):
        answer = sums(request_compression_algorithm=packing, response_compression_algorithm=packing)
        assert answer.as_numpy("SUM").tolist() == [[31, 42]]
    calls = [client.async_infer("plain", [text_input("text_input", f"n{at}")]) for at in range(20)]
    texts = [call.get_result(timeout=10).as_numpy("text_output")[0] for call in calls]
    assert texts == [f"N{at}".encode() for at in range(20)], texts


def types():
    names = {"BOOL": bool, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BYTES": np.object_}
    for sign in ("UINT", "INT"):
        names.update({f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits}") for bits in (8, 16, 32, 64)})
    values = {name: np.array([b"a", b"\x00\xff"] if name == "BYTES" else [1, 0], dtype=of) for name, of in names.items()}
    answer = client.infer("types", [made(name, value, name) for name, value in values.items()])
    for name, value in values.items():
        given = answer.as_numpy(f"{name}_out")
        assert given.tolist() == value.tolist() and given.dtype == value.dtype, (name, given)


def server():
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("plain")
    assert not client.is_model_ready("nope")
    assert client.get_server_metadata()["name"] == "triton"
    assert [one["name"] for one in client.get_model_metadata("batched")["outputs"]] == ["SUM", "DIFF"]
    assert client.get_model_config("tokens")["model_transaction_policy"]["decoupled"]
    assert client.get_inference_statistics("plain")["model_stats"][0]["inference_stats"]["success"]["count"] > 0
    client.update_trace_settings(settings={"trace_rate": "5"})
    assert client.get_trace_settings()["trace_rate"] == "5"
    client.update_log_settings({"log_verbose_level": 1})
    assert client.get_log_settings()["log_verbose_level"] == 1


def wait_until(holds, otherwise):
    for _ in range(500):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(otherwise)


def models():
    client.load_model("echo_b", config='{"backend":"python","max_batch_size":0,'
                      '"input":[{"name":"INPUT0","data_type":"TYPE_INT32","dims":[1]}],'
                      '"output":[{"name":"OUTPUT0","data_type":"TYPE_INT32","dims":[1]}]}',
                      files={"file:1/model.py": b"# nothing of it is run"})
    assert client.is_model_ready("echo_b")
    states = {one["name"]: one.get("state") for one in client.get_model_repository_index()}
    # The index tells of folders alone: a load brought this one's files.
    assert "echo_b" not in states and states["plain"] == "READY", states
    answer = client.infer("echo_b", [number_input("INPUT0", 5)])
    assert answer.as_numpy("OUTPUT0").shape == (1,)
    client.unload_model("echo_b")
    wait_until(lambda: not client.is_model_ready("echo_b"), "echo_b is still ready")
    # A server is not ready while a model is being unloaded (1.1 s); the next client asks for that.
    wait_until(client.is_server_ready, "the server is not ready again")


def errors():
    error = raises(InferenceServerException, lambda: client.infer("nope", []))
    assert error.status() == "400" and error.message() == "Request for unknown model: 'nope' is not found", error
    error = raises(InferenceServerException, lambda: client.infer("tokens", [text_input("text_input", "a")]))
    assert error.status() == "501" and "decoupled" in error.message(), error
    error = raises(InferenceServerException, lambda: client.infer("plain", [number_input("text_input", 1)]))
    assert "data-type is 'INT32'" in error.message(), error
    error = raises(InferenceServerException, lambda: client.load_model("nope"))
    assert error.status() == "500" and "failed to load 'nope'" in error.message(), error
    hasty = httpclient.InferenceServerClient(URL, network_timeout=0.1)
    slow = [text_input("text_input", "a"), number_input("sleep_ms", 500)]
    raises(Exception, lambda: hasty.infer("plain", slow))


def retries():
    """A queue of two behind one that runs: who is refused asks again until there is room."""
    inputs = [made("text_input", np.array([[b"a"]], dtype=object), "BYTES"), made("sleep_ms", np.array([[40]], dtype=np.int32), "INT32")]
    waiting = [(client.async_infer("queue_only", inputs), 1) for _ in range(8)]
    tries = []
    while waiting:
        call, count = waiting.pop(0)
        try:
            assert call.get_result(timeout=10).as_numpy("text_output").tolist() == [[b"A"]]
            tries.append(count)
        except InferenceServerException as error:
            assert error.status() == "503" and "Exceeds maximum queue size" in error.message(), error
            time.sleep(0.05)
            waiting.append((client.async_infer("queue_only", inputs), count + 1))
    assert len(tries) == 8 and max(tries) > 1, tries


def shared_memory():
    region = shm.create_shared_memory_region("http_test", "/understudy_http_test", 32)
    try:
        shm.set_shared_memory_region(region, [np.array([[5, 6]], dtype=np.int32), np.array([[1, 1]], dtype=np.int32)])
        client.register_system_shared_memory("http_test", "/understudy_http_test", 32)
        inputs = [httpclient.InferInput(name, [1, 2], "INT32") for name in ("A", "B")]
        for at, one in enumerate(inputs):
            one.set_shared_memory("http_test", 8, offset=8 * at)
        output = httpclient.InferRequestedOutput("SUM")
        output.set_shared_memory("http_test", 8, offset=16)
        client.infer("batched", inputs, outputs=[output])
        assert shm.get_contents_as_numpy(region, np.int32, [1, 2], offset=16).tolist() == [[6, 7]]
        assert [one["name"] for one in client.get_system_shared_memory_status()] == ["http_test"]
        client.unregister_system_shared_memory("http_test")
        assert client.get_system_shared_memory_status() == []
    finally:
        shm.destroy_shared_memory_region(region)


run({
    "results": results,
    "types": types,
    "server": server,
    "models": models,
    "errors": errors,
    "retries": retries,
    "shared memory": shared_memory,
})
