"""Runs `vllm bench serve` with its flags in an environment without PyTorch. The benchmark is the package's own code."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "test" / "clients" / "python"))
import without_torch  # noqa: E402

without_torch.install()
from vllm.benchmarks import serve  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

parser = FlexibleArgumentParser()
serve.add_cli_args(parser)
serve.main(parser.parse_args())
