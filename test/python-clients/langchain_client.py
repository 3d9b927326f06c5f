"""Uses an agent's API with LangChain; prints what it got as JSON. Arguments: base URL, prompt."""

import json
import sys

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI

base_url, prompt = sys.argv[1:]
options = {"model": "brim", "base_url": base_url, "api_key": "any", "max_tokens": 8, "temperature": 0, "max_retries": 0}
chat = ChatOpenAI(**options)
text = OpenAI(**options)
call = {"name": "level", "args": {"river": "Aare"}, "id": "call_1"}
conversation = [
    HumanMessage(prompt),
    AIMessage(content="", tool_calls=[call]),
    ToolMessage("503 m", tool_call_id="call_1"),
]
print(
    json.dumps(
        {
            "chat": chat.invoke(prompt).content,
            "chatStreamed": "".join(chunk.content for chunk in chat.stream(prompt)),
            "chatBatch": [answer.content for answer in chat.batch([prompt, prompt])],
            "afterTool": chat.invoke(conversation).content,
            "text": text.invoke(prompt),
            "textStreamed": "".join(text.stream(prompt)),
            "textBatch": text.batch([prompt, "The old mill"]),
        }
    )
)
