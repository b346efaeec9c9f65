"""aiperf: its profile of chat and of completions, and what it read from /metrics."""
import json
import pathlib
import subprocess
import sys
import tempfile

from check import MODEL, URL, run

TOKENIZER = str(pathlib.Path(__file__).parents[2] / "conformance" / "model")
REQUESTS, TOKENS = 12, 16


def profile(endpoint):
    with tempfile.TemporaryDirectory() as folder:
        words = ["profile", "--model", MODEL, "--url", URL, "--endpoint-type", endpoint, "--streaming"]
        words += ["--tokenizer", TOKENIZER, "--request-count", str(REQUESTS), "--concurrency", "4"]
        words += ["--synthetic-input-tokens-mean", "40", "--output-tokens-mean", str(TOKENS)]
        words += ["--extra-inputs", "ignore_eos:true", "--use-server-token-count"]
        words += ["--artifact-dir", folder, "--ui", "none"]
        program = str(pathlib.Path(sys.executable).parent / "aiperf")
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=100)
        file = pathlib.Path(folder) / "profile_export_aiperf.json"
        assert file.exists(), done.stdout[-1500:] + done.stderr[-500:]
        result = json.loads(file.read_text())
        scraped = pathlib.Path(folder) / "server_metrics_export.json"
        assert "vllm:" in scraped.read_text(), "no metrics of the server"
    assert result["request_count"]["avg"] == REQUESTS, result["request_count"]
    assert result["output_sequence_length"]["avg"] == TOKENS, result["output_sequence_length"]
    # The server's: 20 ms to the first token and 5 ms between two. A client cannot see less.
    assert result["time_to_first_token"]["p50"] >= 20, result["time_to_first_token"]
    assert result["inter_token_latency"]["p50"] >= 4.5, result["inter_token_latency"]


run({"chat": lambda: profile("chat"), "completions": lambda: profile("completions")})
