"""
Uses one API after the other with the official Python client; prints what each answered as JSON.
Arguments: prompt, then a base URL and a key for each API.
"""

import asyncio
import json
import sys

from openai import APIStatusError, AsyncOpenAI, OpenAI
from pydantic import BaseModel

prompt, *apis = sys.argv[1:]
messages = [{"role": "user", "content": prompt}]
options = {"model": "brim", "max_tokens": 8, "temperature": 0}


# Of few tokens whatever a model prefers: the models of these tests write no end of a string.
RIVERS = ["Aare", "Rhone"]
LEVEL = {
    "name": "level",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"river": {"enum": RIVERS}},
        "required": ["river"],
        "additionalProperties": False,
    },
}


class Level(BaseModel):
    rising: bool


def error_of(client, **fields):
    try:
        client.chat.completions.create(messages=messages, **{**options, **fields})
    except APIStatusError as error:
        return {"class": type(error).__name__, "status": error.status_code, "code": error.code, "param": error.param}
    return None


def text_of(chunks, index=0):
    pieces = (choice for chunk in chunks for choice in chunk.choices)
    return "".join(choice.delta.content or "" for choice in pieces if choice.index == index)


def call_of(client):
    """A whole and a streamed call of a tool, and an answer that is parsed into a class."""
    asked = {**options, "max_tokens": 80, "messages": messages}
    tools = {"tools": [{"type": "function", "function": LEVEL}], "tool_choice": "required", "parallel_tool_calls": False}
    whole = client.chat.completions.create(**asked, **tools).choices[0]
    deltas = [
        delta
        for chunk in client.chat.completions.create(**asked, **tools, stream=True)
        for choice in chunk.choices
        for delta in choice.delta.tool_calls or []
    ]
    parsed = client.chat.completions.parse(**asked, response_format=Level).choices[0].message.parsed
    [call] = whole.message.tool_calls
    return {
        "finish": whole.finish_reason,
        "name": call.function.name,
        "river": json.loads(call.function.arguments)["river"] in RIVERS,
        "streamed": "".join(delta.function.arguments or "" for delta in deltas) == call.function.arguments,
        "ids": len({delta.id for delta in deltas if delta.id}),
        "parsed": type(parsed).__name__,
    }


def responses_of(client):
    """A response, the same one streamed, the next one of its conversation, a call with its result, and a parsed class."""
    asked = {"model": "brim", "max_output_tokens": 8, "temperature": 0}
    whole = client.responses.create(input=prompt, **asked)
    with client.responses.stream(input=prompt, **asked) as stream:
        events = list(stream)
    following = client.responses.create(input="Go on", previous_response_id=whole.id, **asked)
    more = {**asked, "max_output_tokens": 80}
    tools = {"tools": [{"type": "function", **LEVEL}], "tool_choice": "required", "parallel_tool_calls": False}
    called = client.responses.create(input=prompt, **more, **tools)
    [call] = called.output
    with client.responses.stream(input=prompt, **more, **tools) as stream:
        streamed_call = stream.get_final_response().output[0]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "503 m"}
    after = client.responses.create(input=[{"role": "user", "content": prompt}, call, result], **asked)
    try:
        client.responses.create(input=prompt, previous_response_id="resp_0", **asked)
        unknown = None
    except APIStatusError as error:
        unknown = {"status": error.status_code, "param": error.param}
    return {
        "text": whole.output_text,
        "status": whole.status,
        "streamed": "".join(event.delta for event in events if event.type == "response.output_text.delta"),
        "inOrder": [event.sequence_number for event in events] == list(range(len(events))),
        "usage": [whole.usage.output_tokens, events[-1].response.usage.output_tokens],
        "streamedCall": streamed_call.arguments == call.arguments,
        "following": following.previous_response_id == whole.id and len(following.output_text) > 0,
        "retrieved": client.responses.retrieve(whole.id).output_text,
        "call": [call.name, json.loads(call.arguments)["river"] in RIVERS],
        "afterTool": after.output_text,
        "parsed": type(client.responses.parse(input=prompt, text_format=Level, **more).output_parsed).__name__,
        "unknown": unknown,
    }


async def ask_async(base_url, key):
    client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    answer = await client.chat.completions.create(messages=messages, **options)
    stream = await client.chat.completions.create(messages=messages, stream=True, **options)
    return [answer.choices[0].message.content, text_of([chunk async for chunk in stream])]


def answers_of(base_url, key):
    client = OpenAI(base_url=base_url, api_key=key, max_retries=0)
    whole = client.chat.completions.create(messages=messages, **options)
    chunks = list(client.chat.completions.create(messages=messages, stream=True, stream_options={"include_usage": True}, **options))
    scored = client.chat.completions.create(messages=messages, logprobs=True, top_logprobs=2, **options).choices[0].logprobs
    several = client.completions.create(prompt=[prompt, "The old mill"], **options)
    sampled = {**options, "temperature": 0.8, "seed": 7, "n": 2, "presence_penalty": 0.3, "frequency_penalty": 0.3}
    both = client.chat.completions.create(messages=messages, **sampled)
    both_streamed = list(client.chat.completions.create(messages=messages, stream=True, **sampled))
    extended = client.chat.completions.with_raw_response.create(
        messages=messages,
        extra_body={"brim": {"token_ids": True, "tokens_per_s": 500}, "min_p": 0.1, "typical_p": 0.9},
        extra_headers={"x-brim-tokens-per-s": "500"},
        store=False,
        **options,
    )
    return {
        "models": [model.id for model in client.models.list()],
        "model": client.models.retrieve("brim").id,
        "chat": whole.choices[0].message.content,
        "asynchronous": asyncio.run(ask_async(base_url, key)),
        "streamed": text_of(chunks),
        "usage": [whole.usage.completion_tokens, chunks[-1].usage.completion_tokens],
        "requestId": whole._request_id,
        "scored": "".join(token.token for token in scored.content),
        "likeliest": [len(token.top_logprobs) for token in scored.content],
        "completions": [choice.text for choice in several.choices],
        "sampled": [choice.message.content for choice in both.choices],
        "sampledStreamed": [text_of(both_streamed, index) for index in range(2)],
        "ignored": extended.headers["x-brim-ignored"],
        "tokenIds": len(extended.parse().brim["tokenIds"]),
        "wrongKey": error_of(client.with_options(api_key="wrong")),
        "unknownModel": error_of(client, model="gpt-none"),
        "call": call_of(client),
        "responses": responses_of(client),
        "unknownTool": error_of(client, tools=[{"type": "function", "function": LEVEL}], tool_choice={"type": "function", "function": {"name": "f"}}),
        "rate": error_of(client, extra_headers={"x-brim-tokens-per-s": "-1"}),
    }


print(json.dumps([answers_of(*api) for api in zip(apis[::2], apis[1::2])]))
