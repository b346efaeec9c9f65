"""guidellm: a closed loop of chats, and one of completions."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from check import MODEL, URL, run

TOKENIZER = str(pathlib.Path(__file__).parents[2] / "conformance" / "model")
REQUESTS, TOKENS = 8, 16
ENVIRONMENT = dict(os.environ)
if importlib.util.find_spec("torch") is None:
    # The package `datasets` would ask the stand-in of PyTorch for more than the loop that guidellm takes from it.
    ENVIRONMENT |= {"PYTHONPATH": str(pathlib.Path(__file__).parent / "loader"), "USE_TORCH": "0"}


def loop(path):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        words = ["run", "--backend", f"kind=openai_http,target={URL},model={MODEL},request_format={path}"]
        words += ["--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={REQUESTS}"]
        words += ["--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}"]
        words += ["--data", f"kind=synthetic_text,prompt_tokens=40,output_tokens={TOKENS}"]
        words += ["--disable-console-interactive", "--output", f"kind=json,path={file}"]
        program = str(pathlib.Path(sys.executable).parent / "guidellm")
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=100, env=ENVIRONMENT)
        assert file.exists(), done.stdout[-1500:] + done.stderr[-500:]
        metrics = json.loads(file.read_text())["benchmarks"][0]["metrics"]
    assert metrics["request_totals"]["successful"] == REQUESTS, metrics["request_totals"]
    tokens = metrics["output_token_count"]["successful"]
    assert tokens["min"] == tokens["max"] == TOKENS, tokens
    assert metrics["time_to_first_token_ms"]["successful"]["median"] >= 20
    assert metrics["inter_token_latency_ms"]["successful"]["median"] >= 4.5


run({"chat": lambda: loop("/v1/chat/completions"), "completions": lambda: loop("/v1/completions")})
