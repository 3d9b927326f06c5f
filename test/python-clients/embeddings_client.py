"""
Embeds texts by one API after the other; prints what came as JSON.
Arguments: prompt, then a base URL and a key for each API.
"""

import json
import sys

from langchain_openai import OpenAIEmbeddings
from openai import OpenAI

prompt, *apis = sys.argv[1:]
texts = [prompt, "The old mill"]


def product(a, b):
    return round(sum(x * y for x, y in zip(a, b, strict=True)), 3)


def embedded(url, key):
    client = OpenAI(base_url=url, api_key=key, max_retries=0)
    answer = client.embeddings.create(model="brim", input=texts)
    vectors = [item.embedding for item in answer.data]
    short = client.embeddings.create(model="brim", input=prompt, dimensions=8, encoding_format="float")
    chain = OpenAIEmbeddings(model="brim", base_url=url, api_key=key, check_embedding_ctx_length=False)
    return {
        "lengths": [product(vector, vector) for vector in vectors],
        "short": len(short.data[0].embedding),
        "tokens": answer.usage.total_tokens > 0,
        "documents": [product(a, b) for a, b in zip(vectors, chain.embed_documents(texts), strict=True)],
        "query": product(vectors[0], chain.embed_query(prompt)),
    }


print(json.dumps([embedded(*api) for api in zip(apis[::2], apis[1::2], strict=True)]))
