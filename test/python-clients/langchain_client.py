"""
Uses one API after the other with LangChain; prints what each answered as JSON.
Arguments: prompt, then a base URL and a key for each API.
"""

import json
import sys

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI

prompt, *apis = sys.argv[1:]
call = {"name": "level", "args": {"river": "Aare"}, "id": "call_1"}
conversation = [
    HumanMessage(prompt),
    AIMessage(content="", tool_calls=[call]),
    ToolMessage("503 m", tool_call_id="call_1"),
]


def answers_of(base_url, key):
    options = {"model": "brim", "base_url": base_url, "api_key": key, "max_tokens": 8, "temperature": 0, "max_retries": 0}
    chat = ChatOpenAI(**options)
    text = OpenAI(**options)
    return {
        "chat": chat.invoke(prompt).content,
        "chatStreamed": "".join(chunk.content for chunk in chat.stream(prompt)),
        "chatBatch": [answer.content for answer in chat.batch([prompt, prompt])],
        "afterTool": chat.invoke(conversation).content,
        "text": text.invoke(prompt),
        "textStreamed": "".join(text.stream(prompt)),
        "textBatch": text.batch([prompt, "The old mill"]),
    }


print(json.dumps([answers_of(*api) for api in zip(apis[::2], apis[1::2])]))
