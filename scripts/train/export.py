"""Writes the Hugging Face directory of the LLM and, beside it, the adapter; fp16 safetensors.

    python scripts/train/export.py [--work DIR] [--out models/demo/llm]
    python scripts/train/export.py --name slm-deep --out models/demo/slm-deep     # a small model, without adapter

Each file is written beside its place and renamed, so a running reader never meets half a file.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from errors import InputError, run
from files import load_checkpoint, write_atomically
from model import Adapter, LlmConfig, Llama
from paths import REPOSITORY, add_work
from tokenizer import END_OF_TEXT, IM_END, SPECIAL, load_tokenizer, tokenizer_config

SPLIT = 1
DEFAULT_OUT = REPOSITORY / "models" / "demo" / "llm"
ADAPTER_NAMES = {"norm.weight": "norm.weight"} | {
    f"{name}_proj.weight": f"attention.{name}_proj.weight" for name in "qkvo"
}  # file → module


def load_llm_checkpoint(work: Path, name: str = "llm") -> Llama:
    """The model of <work>/<name>.pt in fp32, its weights rounded to fp16 as in the exported file; frozen."""
    state = load_checkpoint(work / f"{name}.pt")
    model = Llama(LlmConfig(**state["config"]))
    model.load_state_dict({name: tensor.half().float() for name, tensor in state["model"].items()})
    return model.requires_grad_(False).eval()


def llm_config(config: LlmConfig) -> dict:
    """config.json of a Hugging Face LlamaForCausalLM."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **config.to_dict(),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": SPECIAL.index(IM_END),
        "pad_token_id": SPECIAL.index(END_OF_TEXT),
    }


def generation_config() -> dict:
    """generation_config.json: stops at <|im_end|> or <|endoftext|>."""
    return {
        "eos_token_id": [SPECIAL.index(IM_END), SPECIAL.index(END_OF_TEXT)],
        "pad_token_id": SPECIAL.index(END_OF_TEXT),
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.95,
        "max_new_tokens": 160,
    }


def adapter_config(config: LlmConfig) -> dict:
    """adapter_config.json: HAT's Λ after the first SPLIT layers."""
    return {
        "kind": "hat-adapter",
        "split": SPLIT,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_attention_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_norm_eps,
    }


def half(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """fp16 copies; InputError where fp16 cannot hold a weight."""
    halves = {name: tensor.half().contiguous() for name, tensor in tensors.items()}
    if not all(torch.isfinite(tensor).all() for tensor in halves.values()):
        raise InputError("a weight is not finite in fp16; the checkpoint is of a run that diverged")
    return halves


def write_json(path: Path, value: dict) -> None:
    """Pretty JSON with a final newline, written atomically."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def export_llm(work: Path, out: Path, name: str = "llm") -> None:
    """Config, weights, tokenizer."""
    state = load_checkpoint(work / f"{name}.pt")
    config = LlmConfig(**state["config"])
    write_atomically(out / "model.safetensors", save(half(state["model"]), metadata={"format": "pt"}))
    write_json(out / "config.json", llm_config(config))
    write_json(out / "generation_config.json", generation_config())
    write_json(out / "tokenizer_config.json", tokenizer_config(config.max_position_embeddings))
    write_atomically(out / "tokenizer.json", load_tokenizer(work).to_str(pretty=True).encode())


def export_adapter(work: Path, out: Path) -> None:
    """The adapter of <work>/adapter.pt into <out>/adapter."""
    state = load_checkpoint(work / "adapter.pt")
    tensors = {name: state["adapter"][source] for name, source in ADAPTER_NAMES.items()}
    write_atomically(out / "adapter" / "adapter.safetensors", save(half(tensors), metadata={"format": "pt"}))
    write_json(out / "adapter" / "adapter_config.json", adapter_config(LlmConfig(**state["config"])))


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Tensors of a file, as fp32; InputError if missing or damaged."""
    if not path.is_file():
        raise InputError(f"{path} is missing; run export.py first")
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except SafetensorError as error:
        raise InputError(f"{path} is damaged ({error}); run export.py again") from error


def load_exported(out: Path) -> tuple[Llama, Adapter]:
    """LLM and adapter of an exported directory, in fp32, frozen."""
    weights = read_safetensors(out / "model.safetensors")
    stored = json.loads((out / "config.json").read_text())
    config = LlmConfig(**{name: stored[name] for name in LlmConfig().to_dict()})
    model, adapter = Llama(config), Adapter(config)
    model.load_state_dict(weights)
    tensors = read_safetensors(out / "adapter" / "adapter.safetensors")
    adapter.load_state_dict({source: tensors[name] for name, source in ADAPTER_NAMES.items()})
    return model.requires_grad_(False).eval(), adapter.requires_grad_(False).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--name", default="llm", help="checkpoint to export; only llm has an adapter (default: llm)")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    export_llm(args.work, args.out, args.name)
    if args.name == "llm":
        export_adapter(args.work, args.out)
    print(json.dumps({"files": sorted(str(path.relative_to(args.out)) for path in args.out.rglob("*") if path.is_file())}))


if __name__ == "__main__":
    run(main)
