"""instructor: models of pydantic out of tool calls and JSON schemas."""
import instructor
import openai
from check import HELLO, MODEL, URL, assert_weather, run
from pydantic import BaseModel, Field


class Weather(BaseModel):
    city: str
    days: int = Field(ge=1, le=7)


def ask(mode):
    client = instructor.from_openai(openai.OpenAI(base_url=f"{URL}/v1", api_key="none"), mode=mode)
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, response_model=Weather, max_retries=0)
    assert_weather(answer.model_dump())


run(
    {
        "structured output": lambda: ask(instructor.Mode.JSON_SCHEMA),
        "tools": lambda: ask(instructor.Mode.TOOLS),
    }
)
