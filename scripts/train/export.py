"""Writes the Hugging Face directory of the LLM and, in it, the adapters; fp16 safetensors.

    python scripts/train/export.py [--work DIR] [--out models/demo/llm]
    python scripts/train/export.py --name slm-deep --out models/demo/slm-deep     # a small model, without adapter
    python scripts/train/export.py --work own --base Qwen2.5-0.5B-Instruct        # only the adapters, into that folder

Files are replaced atomically. An adapter of another LLM is rejected.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from base import fingerprint, read_config
from errors import InputError, run
from feature_adapter import FeatureAdapter, feature_kv_heads
from files import load_checkpoint, write_atomically
from model import SPLIT, Adapter, LlmConfig, Llama
from paths import REPOSITORY, add_work
from sketch import LEVELS
from tasks import EXPAND, EXPAND_NEXT, FORESIGHT, SKETCH
from tokenizer import END_OF_TEXT, IM_END, SPECIAL, load_tokenizer, tokenizer_config

DEFAULT_OUT = REPOSITORY / "models" / "demo" / "llm"
PAPER_ADAPTER = "adapter-paper"
ADAPTERS = ("adapter", PAPER_ADAPTER)  # checkpoint and folder; the second may be missing
ADAPTER_NAMES = {"norm.weight": "norm.weight"} | {
    f"{name}_proj.weight": f"attention.{name}_proj.weight" for name in "qkvo"
}  # file → module
FEATURE_NAMES = {name: name for name in ("feature_norm.weight", "feature_proj.weight")}


def load_llm_checkpoint(work: Path, name: str = "llm") -> Llama:
    """The model of <work>/<name>.pt or of an exported folder in fp32, its weights rounded to fp16 as in the exported file; frozen."""
    state = load_weights(weights_path(work, name))
    model = Llama(LlmConfig(**state["config"]))
    model.load_state_dict({name: tensor.half().float() for name, tensor in state["model"].items()})
    return model.requires_grad_(False).eval()


def weights_path(work: Path, name: str) -> Path:
    """Where the weights of a name are: an exported folder, or <work>/<name>.pt."""
    return Path(name) if Path(name).is_dir() else work / f"{name}.pt"


def load_weights(path: Path) -> dict:
    """A checkpoint, or an exported folder as one: config, model, and the paper's adapter as the early exit's Λ where the folder has one."""
    if not path.is_dir():
        return load_checkpoint(path)
    model = load_exported(path)
    state = {"config": model.config.to_dict(), "model": model.state_dict()}
    if (path / PAPER_ADAPTER).is_dir():
        state["adapter"] = load_exported_adapter(path, model.config, PAPER_ADAPTER).state_dict()
    return state


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


def pice_prompts() -> dict:
    """pice-prompts.json: how PICE asks a model that learnt the tasks of tasks.py; a share is of the full answer's tokens."""
    return {
        "foresight": FORESIGHT,
        "foresightUnit": "tokens",
        "sketch": SKETCH,
        "sketchShares": [LEVELS[level] for level in sorted(LEVELS)],
        "expand": EXPAND,
        "expandNext": EXPAND_NEXT,
    }


def adapter_config(config: LlmConfig, features: bool, split: int = SPLIT) -> dict:
    """adapter_config.json: HAT's Λ after the first `split` layers; `features`: it reads the deep state before each row too."""
    return {
        "kind": "hat-adapter",
        "split": split,
        "features": features,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": feature_kv_heads(config) if features else config.num_attention_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_norm_eps,
    }


def half(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """fp16 copies; InputError if a weight exceeds fp16."""
    halves = {name: tensor.half().contiguous() for name, tensor in tensors.items()}
    if not all(torch.isfinite(tensor).all() for tensor in halves.values()):
        raise InputError("a weight is not finite in fp16: the training run diverged; repeat it")
    return halves


def write_json(path: Path, value: dict) -> None:
    """Pretty JSON with a final newline, written atomically."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def export_llm(work: Path, out: Path, name: str = "llm") -> None:
    """Config, weights, prompts, tokenizer; all are read before the first is written."""
    state, tokenizer = load_checkpoint(work / f"{name}.pt"), load_tokenizer(work)
    config = LlmConfig(**state["config"])
    write_atomically(out / "model.safetensors", save(half(state["model"]), metadata={"format": "pt"}))
    write_json(out / "config.json", llm_config(config))
    write_json(out / "generation_config.json", generation_config())
    write_json(out / "pice-prompts.json", pice_prompts())
    write_json(out / "tokenizer_config.json", tokenizer_config(config.max_position_embeddings))
    write_atomically(out / "tokenizer.json", tokenizer.to_str(pretty=True).encode())


def adapter_names(features: bool) -> dict[str, str]:
    """Tensor of the file → tensor of the module."""
    return ADAPTER_NAMES | (FEATURE_NAMES if features else {})


def export_adapter(work: Path, out: Path, name: str = "adapter") -> None:
    """The adapter of <work>/<name>.pt, of either form, into <out>/<name>."""
    state = load_checkpoint(work / f"{name}.pt")
    features = "feature_proj.weight" in state[name]
    tensors = {file: state[name][module] for file, module in adapter_names(features).items()}
    write_atomically(out / name / "adapter.safetensors", save(half(tensors), metadata={"format": "pt"}))
    write_json(out / name / "adapter_config.json", adapter_config(LlmConfig(**state["config"]), features, state["split"]))


def check_adapters(work: Path, names: Sequence[str]) -> None:
    """InputError for an adapter that does not belong to <work>/llm.pt or whose checkpoint is damaged: nothing is written then."""
    for name in names:
        if load_checkpoint(work / f"{name}.pt")["llm"] != fingerprint(load_llm_checkpoint(work)):
            raise InputError(f"{work / name}.pt was trained for another LLM checkpoint; delete it and train it again")


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Tensors of a file, as fp32; InputError if missing or damaged."""
    if not path.is_file():
        raise InputError(f"{path} is missing; run export.py first")
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except SafetensorError as error:
        raise InputError(f"{path} is damaged ({error}); run export.py again") from error


def load_exported(out: Path) -> Llama:
    """The LLM of an exported directory, in fp32, frozen."""
    weights = read_safetensors(out / "model.safetensors")
    stored = json.loads((out / "config.json").read_text())
    model = Llama(LlmConfig(**{name: stored[name] for name in LlmConfig().to_dict()}))
    model.load_state_dict(weights)
    return model.requires_grad_(False).eval()


def load_exported_adapter(out: Path, config: LlmConfig, name: str = "adapter") -> Adapter | FeatureAdapter:
    """The adapter in <out>/<name>, in fp32, frozen."""
    features = json.loads((out / name / "adapter_config.json").read_text())["features"]
    adapter = FeatureAdapter(config) if features else Adapter(config)
    tensors = read_safetensors(out / name / "adapter.safetensors")
    adapter.load_state_dict({module: tensors[file] for file, module in adapter_names(features).items()})
    return adapter.requires_grad_(False).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--name", default="llm", help="checkpoint to export; only llm has adapters (default: llm)")
    parser.add_argument("--base", type=Path, metavar="DIR", help="write the adapters of <work> into this checkpoint's folder")
    parser.add_argument("--out", type=Path, help="default: the --base folder, or models/demo/llm")
    args = parser.parse_args()
    args.out = args.out or args.base or DEFAULT_OUT
    adapters = [name for name in ADAPTERS if args.name == "llm" and (args.work / f"{name}.pt").exists()]
    if args.base:
        read_config(args.base)
        if not adapters:
            raise InputError(f"{args.work} has no adapter; run train_adapter.py with --base first")
    else:
        check_adapters(args.work, adapters)
        export_llm(args.work, args.out, args.name)
    for name in adapters:
        export_adapter(args.work, args.out, name)
    print(json.dumps({"files": sorted(str(path.relative_to(args.out)) for path in args.out.rglob("*") if path.is_file())}))


if __name__ == "__main__":
    run(main)
