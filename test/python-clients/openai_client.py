"""Uses an agent's API with the official Python client; prints what it got as JSON. Arguments: base URL, prompt."""

import asyncio
import json
import sys

from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

base_url, prompt = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
messages = [{"role": "user", "content": prompt}]
options = {"model": "brim", "max_tokens": 8, "temperature": 0}


def error_of(kind, **fields):
    try:
        client.chat.completions.create(messages=messages, **{**options, **fields})
    except kind as error:
        return {"status": error.status_code, "code": error.code, "param": error.param}
    return None


async def ask_async():
    asynchronous = AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0)
    answer = await asynchronous.chat.completions.create(messages=messages, **options)
    return answer.choices[0].message.content


whole = client.chat.completions.create(messages=messages, **options)
chunks = list(client.chat.completions.create(messages=messages, stream=True, stream_options={"include_usage": True}, **options))
several = client.completions.create(prompt=[prompt, "The old mill"], **options)
extended = client.chat.completions.with_raw_response.create(
    messages=messages, extra_body={"brim": {"token_ids": True}, "min_p": 0.1, "typical_p": 0.9}, store=False, **options
)
print(
    json.dumps(
        {
            "models": [model.id for model in client.models.list()],
            "chat": whole.choices[0].message.content,
            "asynchronous": asyncio.run(ask_async()),
            "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
            "usage": [whole.usage.completion_tokens, chunks[-1].usage.completion_tokens],
            "requestId": whole._request_id,
            "completions": [choice.text for choice in several.choices],
            "answers": len(client.chat.completions.create(messages=messages, n=2, **options).choices),
            "ignored": extended.headers["x-brim-ignored"],
            "tokenIds": len(extended.parse().brim["tokenIds"]),
            "unknownModel": error_of(NotFoundError, model="gpt-none"),
            "tools": error_of(BadRequestError, tools=[{"type": "function", "function": {"name": "f"}}]),
        }
    )
)
