"""`vllm bench serve`, the package's own benchmark, on chat and completions; its result file says what it measured."""
import json
import pathlib
import tempfile

import without_torch
from check import MODEL, URL, run

without_torch.install()
from vllm.benchmarks import serve  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

TOKENIZER = str(pathlib.Path(__file__).parents[2] / "conformance" / "model")
REQUESTS, TOKENS = 12, 16


def bench(backend, endpoint):
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--backend", backend, "--base-url", URL, "--endpoint", endpoint, "--model", MODEL]
        words += ["--dataset-name", "random", "--random-input-len", "40", "--random-output-len", str(TOKENS)]
        words += ["--num-prompts", str(REQUESTS), "--max-concurrency", "4", "--tokenizer", TOKENIZER, "--ignore-eos"]
        words += ["--disable-tqdm", "--save-result", "--result-dir", folder, "--result-filename", "result.json"]
        serve.main(parser.parse_args(words))
        result = json.loads((pathlib.Path(folder) / "result.json").read_text())
    assert result["completed"] == REQUESTS and result["failed"] == 0, result
    assert result["total_output_tokens"] == REQUESTS * TOKENS, result
    # The server's: 20 ms to the first token and 5 ms between two. A client cannot see less.
    assert result["median_ttft_ms"] >= 20 and result["median_tpot_ms"] >= 4.5, result
    assert result["median_itl_ms"] > 0, result


run(
    {
        "chat": lambda: bench("openai-chat", "/v1/chat/completions"),
        "completions": lambda: bench("openai", "/v1/completions"),
    }
)
