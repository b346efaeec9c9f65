"""The reader of guidellm: its backend for OpenAI's API, one chat."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python" / "loader"))
os.environ["USE_TORCH"] = "0"
import httpx  # noqa: E402
from driver import run  # noqa: E402
from guidellm.backends.openai.http import OpenAIHTTPBackend  # noqa: E402
from guidellm.schemas import GenerationRequest, RequestInfo  # noqa: E402
from guidellm.schemas.backends.openai_http import OpenAIHTTPBackendArgs  # noqa: E402


async def ask(asked, seen):
    arguments = OpenAIHTTPBackendArgs(
        target=asked["baseUrl"].removesuffix("/v1"),
        model=asked["model"],
        request_format="/v1/chat/completions",
        timeout=asked["timeoutMs"] / 1000,
    )
    backend = OpenAIHTTPBackend(arguments)
    await backend.process_startup()
    try:
        request = GenerationRequest(columns={"text_column": ["Say it"]})
        async for answer, _ in backend.resolve(request, RequestInfo()):
            if answer is not None:
                seen.text = answer.text or ""
                usage = answer.output_metrics.text_tokens
                if usage and answer.input_metrics.text_tokens:
                    seen.usage = {"prompt": answer.input_metrics.text_tokens, "completion": usage}
    finally:
        await backend.process_shutdown()


run(ask, httpx.HTTPError)
