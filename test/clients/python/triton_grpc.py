"""tritonclient.grpc against a Triton server of ours: results, metadata, errors, streams, cancellation, shared memory."""
import queue
import time

import numpy as np
import tritonclient.grpc as grpcclient
from check import URL, raises, run
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

client = grpcclient.InferenceServerClient(URL)


def text_input(name, text):
    made = grpcclient.InferInput(name, [1], "BYTES")
    made.set_data_from_numpy(np.array([text.encode()], dtype=object))
    return made


def number_input(name, value):
    made = grpcclient.InferInput(name, [1], "INT32")
    made.set_data_from_numpy(np.array([value], dtype=np.int32))
    return made


def sums(**asked):
    pairs = {"A": np.array([[1, 2]], dtype=np.int32), "B": np.array([[30, 40]], dtype=np.int32)}
    inputs = []
    for name, value in pairs.items():
        made = grpcclient.InferInput(name, list(value.shape), "INT32")
        made.set_data_from_numpy(value)
        inputs.append(made)
    return client.infer("batched", inputs, **asked)


def results():
    answer = sums(request_id="7", priority=1, timeout=1_000_000, parameters={"a": 1, "b": True, "c": "x", "d": 2.5})
    assert answer.as_numpy("SUM").tolist() == [[31, 42]] and answer.as_numpy("DIFF").tolist() == [[-29, -38]]
    assert answer.get_response().id == "7"
    only = sums(outputs=[grpcclient.InferRequestedOutput("DIFF")])
    assert only.as_numpy("SUM") is None and only.as_numpy("DIFF").tolist() == [[-29, -38]]
    best = sums(outputs=[grpcclient.InferRequestedOutput("SUM", class_count=1)])
    assert best.as_numpy("SUM").tolist() == [[b"42:1"]], best.as_numpy("SUM")
    for packing in ("gzip", "deflate"):
        assert sums(compression_algorithm=packing).as_numpy("SUM").tolist() == [[31, 42]]
    done = queue.Queue()
    for at in range(20):
        client.async_infer("plain", [text_input("text_input", f"n{at}")], lambda result, error: done.put((result, error)))
    seen = [done.get(timeout=10) for _ in range(20)]
    texts = sorted(result.as_numpy("text_output")[0] for result, error in seen)
    assert texts == sorted(f"N{at}".encode() for at in range(20)), texts


def server():
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("plain")
    assert not client.is_model_ready("nope")
    assert client.get_server_metadata().name == "triton"
    assert [one.name for one in client.get_model_metadata("batched").outputs] == ["SUM", "DIFF"]
    assert client.get_model_config("tokens").config.model_transaction_policy.decoupled
    names = {one.name for one in client.get_model_repository_index().models}
    assert {"plain", "batched", "tokens"} <= names, names
    assert client.get_inference_statistics("plain").model_stats[0].inference_stats.success.count > 0
    client.update_trace_settings(settings={"trace_rate": "5"})
    assert client.get_trace_settings(as_json=True)["settings"]["trace_rate"]["value"] == ["5"]
    client.update_log_settings({"log_verbose_level": 1})
    assert client.get_log_settings().settings["log_verbose_level"].uint32_param == 1


def errors():
    error = raises(InferenceServerException, lambda: client.infer("nope", []))
    assert error.status() == "StatusCode.INVALID_ARGUMENT" and "nope" in error.message(), error
    error = raises(InferenceServerException, lambda: client.infer("tokens", [text_input("text_input", "a")]))
    assert error.status() == "StatusCode.UNIMPLEMENTED", error
    wrong = number_input("text_input", 1)
    error = raises(InferenceServerException, lambda: client.infer("plain", [wrong]))
    assert "data-type is 'INT32'" in error.message(), error
    slow = [text_input("text_input", "a"), number_input("sleep_ms", 500)]
    error = raises(InferenceServerException, lambda: client.infer("plain", slow, client_timeout=0.1))
    assert error.status() == "StatusCode.DEADLINE_EXCEEDED", error


def collect(send, count, **started):
    """So many answers of a stream, each a result or an error."""
    got = queue.Queue()
    with grpcclient.InferenceServerClient(URL) as own:
        own.start_stream(callback=lambda result, error: got.put((result, error)), **started)
        send(own)
        seen = [got.get(timeout=10) for _ in range(count)]
        own.stop_stream()
        assert got.empty()
    return seen


def stream():
    words = [text_input("text_input", "a b c"), number_input("sleep_ms", 5)]
    seen = collect(lambda own: own.async_stream_infer("tokens", words, request_id="r"), 3)
    assert [result.as_numpy("text_output")[0] for result, error in seen] == [b"a", b" b", b" c"]
    finals = [result.get_response().parameters["triton_final_response"].bool_param for result, error in seen]
    assert finals == [False, False, True], finals
    alone = [text_input("text_input", "a b"), text_input("mode", "empty_final")]
    seen = collect(lambda own: own.async_stream_infer("tokens", alone, enable_empty_final_response=True), 3)
    last = seen[-1][0].get_response()
    assert last.parameters["triton_final_response"].bool_param and len(last.outputs) == 0
    failing = [text_input("text_input", "a b"), text_input("mode", "error_at:1")]

    def two(own):
        own.async_stream_infer("tokens", failing)
        own.async_stream_infer("nope", [])
        own.async_stream_infer("plain", [text_input("text_input", "still")])

    seen = collect(two, 4)
    said = sorted(error.message() for result, error in seen if error is not None)
    assert len(said) == 2 and said[1] == "boom in the stream", said


def cancel():
    got = queue.Queue()
    slow = [text_input("text_input", "a"), number_input("sleep_ms", 400)]
    call = client.async_infer("plain", slow, lambda result, error: got.put(error))
    call.cancel()
    assert "CANCELLED" in got.get(timeout=10).status().upper()
    with grpcclient.InferenceServerClient(URL) as own:
        own.start_stream(callback=lambda result, error: got.put((result, error)))
        own.async_stream_infer("tokens", [text_input("text_input", "a b c d e f"), number_input("sleep_ms", 100)])
        assert got.get(timeout=10)[0].as_numpy("text_output")[0] == b"a"
        own.stop_stream(cancel_requests=True)
    time.sleep(0.5)
    assert client.is_server_ready()


def shared_memory():
    region = shm.create_shared_memory_region("grpc_test", "/understudy_grpc_test", 32)
    try:
        shm.set_shared_memory_region(region, [np.array([[5, 6]], dtype=np.int32), np.array([[1, 1]], dtype=np.int32)])
        client.register_system_shared_memory("grpc_test", "/understudy_grpc_test", 32)
        inputs = [grpcclient.InferInput(name, [1, 2], "INT32") for name in ("A", "B")]
        for at, one in enumerate(inputs):
            one.set_shared_memory("grpc_test", 8, offset=8 * at)
        output = grpcclient.InferRequestedOutput("SUM")
        output.set_shared_memory("grpc_test", 8, offset=16)
        client.infer("batched", inputs, outputs=[output])
        assert shm.get_contents_as_numpy(region, np.int32, [1, 2], offset=16).tolist() == [[6, 7]]
        assert "grpc_test" in client.get_system_shared_memory_status().regions
        client.unregister_system_shared_memory("grpc_test")
        assert not client.get_system_shared_memory_status().regions
    finally:
        shm.destroy_shared_memory_region(region)


run({
    "results": results,
    "server": server,
    "errors": errors,
    "stream": stream,
    "cancel": cancel,
    "shared memory": shared_memory,
})
