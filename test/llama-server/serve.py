"""
Serves a GGUF file, or a tiny random model that it writes into a folder, with llama.cpp's server: python serve.py PATH KEY.
Prints its URL; ends with its input.
"""

import random
import struct
import sys
from pathlib import Path

WIDTH, HEADS, LAYERS, FEED_FORWARD, CONTEXT = 32, 4, 2, 64, 512
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"

# Types of GGUF: github.com/ggml-org/ggml/blob/master/docs/gguf.md
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_of(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def entry(key, kind, value):
    if isinstance(value, list):
        items = b"".join(value_of(kind, item) for item in value)
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + items
    return text(key) + struct.pack("<I", kind) + value_of(kind, value)


def vocabulary():
    """Tokens with score and type: 1 normal, 2 unknown, 3 control, 6 byte."""
    special = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    return special + [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)] + [("\u2581", -1.0, 1)]


def write_model(path):
    tokens = vocabulary()
    metadata = [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "tiny"),
        entry("llama.context_length", UINT32, CONTEXT),
        entry("llama.embedding_length", UINT32, WIDTH),
        entry("llama.block_count", UINT32, LAYERS),
        entry("llama.feed_forward_length", UINT32, FEED_FORWARD),
        entry("llama.attention.head_count", UINT32, HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.rope.dimension_count", UINT32, WIDTH // HEADS),
        entry("tokenizer.ggml.model", STRING, "llama"),
        entry("tokenizer.ggml.tokens", STRING, [token for token, _, _ in tokens]),
        entry("tokenizer.ggml.scores", FLOAT32, [score for _, score, _ in tokens]),
        entry("tokenizer.ggml.token_type", INT32, [kind for _, _, kind in tokens]),
        entry("tokenizer.ggml.bos_token_id", UINT32, 1),
        entry("tokenizer.ggml.eos_token_id", UINT32, 2),
        entry("tokenizer.chat_template", STRING, TEMPLATE),
    ]
    shapes = {"token_embd": [WIDTH, len(tokens)], "output": [WIDTH, len(tokens)], "output_norm": [WIDTH]}
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        shapes |= {f"{block}.{name}": [WIDTH, WIDTH] for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {f"{block}.{name}": [WIDTH, FEED_FORWARD] for name in ("ffn_gate", "ffn_up")}
        shapes |= {f"{block}.ffn_down": [FEED_FORWARD, WIDTH], f"{block}.attn_norm": [WIDTH], f"{block}.ffn_norm": [WIDTH]}
    noise = random.Random(1)
    infos, data = b"", b""
    for name, shape in shapes.items():
        infos += text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights = [noise.gauss(0, 0.5) if len(shape) > 1 else 1.0 for _ in range(size)]
        data += struct.pack(f"<{size}f", *weights)
        data += bytes(-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata)) + b"".join(metadata) + infos
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


def main():
    import xllamacpp

    path, key = Path(sys.argv[1]), sys.argv[2]
    if path.suffix != ".gguf":
        path = path / "tiny.gguf"
        write_model(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {"tiny"}
    params.api_keys = [key]
    params.n_ctx = CONTEXT
    params.n_parallel = 2
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # Everything in fp32, to compare tokens.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.warmup = False
    params.verbosity = -1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
