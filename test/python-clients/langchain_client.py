"""
Uses one API after the other with LangChain; prints what each answered as JSON.
Arguments: prompt, then a base URL and a key for each API.
"""

import json
import sys
from typing import Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

prompt, *apis = sys.argv[1:]
call = {"name": "level", "args": {"river": "Aare"}, "id": "call_1"}
conversation = [
    HumanMessage(prompt),
    AIMessage(content="", tool_calls=[call]),
    ToolMessage("503 m", tool_call_id="call_1"),
]


@tool
def level(river: Literal["Aare", "Rhone"]) -> str:
    """In m."""
    return f"503 at {river}"


class Level(BaseModel):
    """In m."""

    rising: bool


def tools_of(chat):
    """What an agent does: the model calls a tool, which runs; and an answer in a form."""
    called = chat.bind_tools([level], tool_choice="any").invoke(prompt)
    streamed = None
    for chunk in chat.bind_tools([level], tool_choice="level").stream(prompt):
        streamed = chunk if streamed is None else streamed + chunk
    results = [level.invoke(call).content for call in called.tool_calls]
    forms = [chat.with_structured_output(Level, method=method).invoke(prompt) for method in ["json_schema", "function_calling"]]
    return {
        "results": [result.startswith("503 at ") for result in results],
        "streamed": [call["args"] for call in streamed.tool_calls] == [call["args"] for call in called.tool_calls],
        "forms": [type(form).__name__ for form in forms],
    }


def answers_of(base_url, key):
    options = {"model": "brim", "base_url": base_url, "api_key": key, "max_tokens": 8, "temperature": 0, "max_retries": 0}
    chat = ChatOpenAI(**options)
    text = OpenAI(**options)
    return {
        "chat": chat.invoke(prompt).content,
        "chatStreamed": "".join(chunk.content for chunk in chat.stream(prompt)),
        "chatBatch": [answer.content for answer in chat.batch([prompt, prompt])],
        "afterTool": chat.invoke(conversation).content,
        "tools": tools_of(ChatOpenAI(**{**options, "max_tokens": 80})),
        "text": text.invoke(prompt),
        "textStreamed": "".join(text.stream(prompt)),
        "textBatch": text.batch([prompt, "The old mill"]),
    }


print(json.dumps([answers_of(*api) for api in zip(apis[::2], apis[1::2])]))
