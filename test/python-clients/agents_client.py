"""
Runs an agent of OpenAI's Agents SDK at one API after the other, by chat completions and by responses; prints what it did as JSON.
Arguments: prompt, then a base URL and a key for each API.
"""

import json
import sys
from typing import Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

prompt, *apis = sys.argv[1:]
set_tracing_disabled(True)
called = []


@function_tool
def level(river: Literal["Aare", "Rhone"]) -> str:
    """In m."""
    called.append(river)
    return f"503 at {river}"


class Level(BaseModel):
    rising: bool


def run_of(model):
    called.clear()
    # The SDK asks for a call once: with the result, the model may call again, or answers in the form.
    settings = ModelSettings(temperature=0, max_tokens=100, parallel_tool_calls=False, tool_choice="required")
    agent = Agent(name="gauge", instructions="Be brief.", model=model, tools=[level], output_type=Level, model_settings=settings)
    result = Runner.run_sync(agent, prompt, max_turns=30)
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return {"ran": outputs == [f"503 at {river}" for river in called], "called": len(called) > 0, "form": type(result.final_output).__name__}


def runs_of(base_url, key):
    client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    return [run_of(kind("brim", openai_client=client)) for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel)]


print(json.dumps([runs_of(*api) for api in zip(apis[::2], apis[1::2])]))
