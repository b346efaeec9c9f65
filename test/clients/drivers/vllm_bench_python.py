"""The reader of `vllm bench serve`, the package's own function for one chat. It says no finish reason and knows no timeout."""
import pathlib
import sys

from driver import run

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import without_torch  # noqa: E402

without_torch.install()
import aiohttp  # noqa: E402
from vllm.benchmarks.lib.endpoint_request_func import (  # noqa: E402
    RequestFuncInput,
    async_request_openai_chat_completions,
)


class Failed(Exception):
    """What it has in its `error`."""


async def ask(asked, seen):
    url = f"{asked['baseUrl']}/chat/completions"
    request = RequestFuncInput(prompt="Say it", api_url=url, prompt_len=7, output_len=33, model=asked["model"])
    timeout = aiohttp.ClientTimeout(sock_read=asked["timeoutMs"] / 1000)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
        answer = await async_request_openai_chat_completions(request, session)
    seen.text = answer.generated_text
    if answer.output_tokens:
        seen.usage = {"prompt": answer.prompt_len, "completion": answer.output_tokens}
    if not answer.success:
        raise Failed((answer.error or "no reason").strip().splitlines()[-1])


run(ask, Failed)
