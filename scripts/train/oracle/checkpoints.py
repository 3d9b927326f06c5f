"""Tiny random checkpoints, written as published ones are: the shapes, names and settings that the builder must cope with."""

import json
import math
from pathlib import Path

import torch
import text_models
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig

CONTEXT = 512


def random_weights(config: dict, seed: int) -> dict[str, torch.Tensor]:
    """
    Gaussian weights whose layers all matter: norms away from 1, attention that looks somewhere, logits with a standard
    deviation of about 3, so that greedy decoding wanders instead of repeating itself.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, std: float) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * std

    hidden, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    query, keyvalue = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tied = config["tie_word_embeddings"]
    weights = {"model.embed_tokens.weight": normal(vocab, hidden, std=3 / math.sqrt(hidden) if tied else 1.0)}
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{name}{norm}.weight"] = 1 + normal(hidden, std=0.2)
        for projection, rows, gain in (("q", query, 1.5), ("k", keyvalue, 1.5), ("v", keyvalue, 1.0)):
            weights[f"{name}self_attn.{projection}_proj.weight"] = normal(rows, hidden, std=gain / math.sqrt(hidden))
            if config["model_type"] == "qwen2":
                weights[f"{name}self_attn.{projection}_proj.bias"] = normal(rows, std=0.5)
        weights[f"{name}self_attn.o_proj.weight"] = normal(hidden, query, std=1 / math.sqrt(query))
        for projection in ("gate", "up"):
            weights[f"{name}mlp.{projection}_proj.weight"] = normal(ffn, hidden, std=1 / math.sqrt(hidden))
        weights[f"{name}mlp.down_proj.weight"] = normal(hidden, ffn, std=1.5 / math.sqrt(ffn))
    weights["model.norm.weight"] = 1 + normal(hidden, std=0.2)
    if not tied:
        weights["lm_head.weight"] = normal(vocab, hidden, std=3 / math.sqrt(hidden))
    return weights


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def base_config(architecture: str, model_type: str, dtype: str, **settings: object) -> dict:
    """config.json as transformers 4 wrote it: `rope_theta` and `torch_dtype` at the top level."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "use_cache": True,
        **settings,
    }


def save_single(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def save_sharded(folder: Path, weights: dict[str, torch.Tensor], shards: int) -> None:
    names = sorted(weights)
    size = math.ceil(len(names) / shards)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = names[shard * size : (shard + 1) * size]
        save_file({name: weights[name] for name in part}, folder / file, metadata={"format": "pt"})
        weight_map |= {name: file for name in part}
    total = sum(weight.numel() * weight.element_size() for weight in weights.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


def llama(folder: Path, seed: int) -> Tokenizer:
    """Grouped queries, bf16 in three shards, a Llama-3 tokenizer, several ends of text in generation_config.json."""
    config = base_config(
        "LlamaForCausalLM", "llama", "bfloat16",
        intermediate_size=128, num_hidden_layers=4, num_key_value_heads=2, vocab_size=512, rope_theta=500000.0,
        bos_token_id=507, eos_token_id=508, attention_bias=False, mlp_bias=False,
    )  # fmt: skip
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {"bos_token_id": 507, "eos_token_id": [508, 511], "temperature": 0.6, "top_p": 0.9})
    save_sharded(folder, {name: w.to(torch.bfloat16) for name, w in random_weights(config, seed).items()}, 3)
    return text_models.llama3()


def llama_mha(folder: Path, seed: int) -> Tokenizer:
    """As Vicuna: every head its own keys, fp16 in one file, with the inverse frequencies that old checkpoints carry along."""
    config = base_config(
        "LlamaForCausalLM", "llama", "float16",
        intermediate_size=128, num_hidden_layers=3, num_key_value_heads=4, vocab_size=512,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    write_json(folder / "config.json", {key: value for key, value in config.items() if key != "rope_theta"})
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    weights = {name: w.to(torch.float16) for name, w in random_weights(config, seed).items()}
    frequencies = 1.0 / (10000.0 ** (torch.arange(0, 16, 2).float() / 16))
    for layer in range(config["num_hidden_layers"]):
        weights[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = frequencies.clone()
    save_single(folder, weights)
    return text_models.vicuna()


def qwen2(folder: Path, seed: int) -> Tokenizer:
    """QKV biases, tied embeddings, a vocabulary padded beyond the tokenizer's; saved by transformers 5 itself, in fp32."""
    sizes = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "tie_word_embeddings": True,
    }  # fmt: skip
    config = Qwen2Config(
        **sizes, max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, bos_token_id=497, eos_token_id=499, dtype="float32",
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, use_sliding_window=False,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    missing, unexpected = model.load_state_dict(random_weights({**sizes, "model_type": "qwen2"}, seed), strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    model.generation_config.eos_token_id = [499, 497]
    model.save_pretrained(folder)
    return text_models.qwen2()


def llama3_rope(folder: Path, seed: int) -> Tokenizer:
    """Llama 3.1's frequency-dependent RoPE scaling and an explicit head size; bf16."""
    config = base_config(
        "LlamaForCausalLM", "llama", "bfloat16",
        intermediate_size=96, num_hidden_layers=2, num_key_value_heads=1, head_dim=32, vocab_size=480, rope_theta=10000.0,
        rope_scaling={
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128, "rope_type": "llama3",
        },
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    write_json(folder / "config.json", config)
    save_single(folder, {name: w.to(torch.bfloat16) for name, w in random_weights(config, seed).items()})
    return text_models.mistral()


def qwen3_5(folder: Path, seed: int) -> Tokenizer:
    """Gated DeltaNet with fewer key heads than value heads, and gated attention that rotates a quarter of each head; bf16."""
    config = Qwen3_5TextConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
        linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
        vocab_size=512, max_position_embeddings=CONTEXT, bos_token_id=497, eos_token_id=499, dtype="float32",
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    )  # fmt: skip
    model = Qwen3_5ForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if name.endswith("A_log"):
                weight.copy_(noise * 0.7 - 1.5)
            elif name.endswith("linear_attn.norm.weight"):
                weight.copy_(1 + noise * 0.2)
            elif weight.dim() == 1:
                weight.copy_(noise * 0.2)
            elif name.endswith("conv1d.weight"):
                weight.copy_(noise * 0.8)
            else:
                gain = 3 if name.endswith("embed_tokens.weight") else 1.5
                weight.copy_(noise * gain / math.sqrt(weight.shape[1]))
    model.to(torch.bfloat16)
    model.config.architectures = ["Qwen3_5ForCausalLM"]
    model.generation_config.eos_token_id = [499, 497]
    model.save_pretrained(folder)
    return text_models.qwen2()


CHECKPOINTS = {"llama": llama, "llama-mha": llama_mha, "qwen2": qwen2, "llama3-rope": llama3_rope, "qwen3-5": qwen3_5}
