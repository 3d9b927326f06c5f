"""Folds a secret rotation into a Llama or Qwen2 checkpoint: the same tokens from other weights, and states that are turned by a key.

    python scripts/train/rotate.py --llm models/demo/llm --out rotated
    bin/brim model build rotated --split 1 --out rotated-bundle --drafters none

Each RMSNorm's weights go into the matrices that read it, which leaves a norm that a rotation does not change. What reads the states is
then turned by the key, and what adds to them is, too: nothing is computed at run time. A tied head becomes one of its own.

Then it is the attacker: estimates the key by the public weights, from a checkpoint whose weights a fine-tuning has changed by --changes of
their size, and from rows of known tokens. Prints JSON lines: `error` is the distance from the key over its size, 1.4 for a guess.
ADR 45 says why Brim does not offer this.
"""

import argparse
import json
import re
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from errors import InputError, run
from export import write_json
from files import read_json, write_atomically
from obfuscation import procrustes
from paths import REPOSITORY, add_seed

NORMS = {f"self_attn.{name}_proj": "input_layernorm" for name in "qkv"} | {
    f"mlp.{name}_proj": "post_attention_layernorm" for name in ("gate", "up")
}  # what reads the states, and the norm before it
ADDING = ("self_attn.o_proj", "mlp.down_proj")
EMBEDDING, FINAL_NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
LAYER = re.compile(r"(model\.layers\.\d+)\.(.+)\.(weight|bias)")


def random_key(width: int) -> Tensor:
    """Orthogonal [width, width], in fp64."""
    return torch.linalg.qr(torch.randn(width, width, dtype=torch.float64))[0]


def without_norms(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same function in fp64, with norms of ones and a head of its own."""
    folded = {name: tensor.double() for name, tensor in tensors.items()}
    folded[HEAD] = folded.get(HEAD, folded[EMBEDDING]) * folded[FINAL_NORM]
    for name in tensors:
        part = LAYER.fullmatch(name)
        if part and part[2] in NORMS and part[3] == "weight":
            folded[name] = folded[name] * tensors[f"{part[1]}.{NORMS[part[2]]}.weight"].double()
    return {name: torch.ones_like(tensor) if "norm" in name else tensor for name, tensor in folded.items()}


def rotated(folded: dict[str, Tensor], key: Tensor) -> dict[str, Tensor]:
    """Of a checkpoint without norms: the one whose states are those times the key, in fp32."""

    def turned(name: str, tensor: Tensor) -> Tensor:
        part = LAYER.fullmatch(name)
        if name in (EMBEDDING, HEAD) or (part and part[2] in NORMS and part[3] == "weight"):
            return tensor @ key
        if part and part[2] in ADDING:
            return key.T @ tensor
        if part and part[2] in NORMS or "norm" in name:
            return tensor
        raise InputError(f"cannot be folded: {name}")

    return {name: turned(name, tensor).float().contiguous() for name, tensor in folded.items()}


def by_weights(folded: dict[str, Tensor], secret: dict[str, Tensor], split: int) -> Tensor:
    """The key, by the matrices of the layers that the bridge has: those from `split` on."""
    pairs = []
    for name, tensor in folded.items():
        part = LAYER.fullmatch(name)
        if part and part[3] == "weight" and part[2] in (*NORMS, *ADDING) and int(part[1].split(".")[-1]) >= split:
            both = (tensor / tensor.norm(), secret[name].double() / tensor.norm())
            pairs.append([one.T for one in both] if part[2] in ADDING else both)
    plain, sent = (torch.cat(rows) for rows in zip(*pairs, strict=True))
    return procrustes(plain, sent)


def changed(folded: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """As after a fine-tuning that changes each weight by that share of the root mean square of its tensor."""
    return {
        name: tensor if "norm" in name else tensor + share * tensor.square().mean().sqrt() * torch.randn_like(tensor)
        for name, tensor in folded.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", type=Path, default=REPOSITORY / "models" / "demo" / "llm", help="checkpoint (default: models/demo/llm)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the rotated checkpoint")
    parser.add_argument("--split", type=int, default=1, help="layers that the bridge does not have (default: 1)")
    parser.add_argument("--changes", type=float, nargs="+", default=[0.0, 0.1, 1.0, 3.0], help="of a fine-tuning (default: 0 0.1 1 3)")
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 32, 128], help="known tokens (default: 16 32 128)")
    add_seed(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    folded = without_norms(load_file(args.llm / "model.safetensors"))
    key = random_key(folded[EMBEDDING].shape[1])
    secret = rotated(folded, key)
    write_atomically(args.out / "model.safetensors", save(secret, metadata={"format": "pt"}))
    config = read_json(args.llm / "config.json")
    write_json(args.out / "config.json", {**config, "tie_word_embeddings": False, "torch_dtype": "float32"})
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(args.llm / name, args.out / name)
    size = key.norm()

    def report(attack: dict, estimate: Tensor) -> None:
        print(json.dumps({**attack, "error": round(((estimate - key).norm() / size).item(), 4)}), flush=True)

    for share in args.changes:
        report({"weightsChangedBy": share}, by_weights(folded, rotated(changed(folded, share), key), args.split))
    embedding = folded[EMBEDDING]
    for count in args.rows:
        rows = embedding[torch.randperm(len(embedding))[:count]]
        report({"rows": count}, procrustes(rows, rows @ key))


if __name__ == "__main__":
    run(main)
