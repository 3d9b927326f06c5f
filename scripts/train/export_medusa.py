"""Writes <out>/medusa/{medusa_config.json, medusa.safetensors}, fp16, with the verification tree of eight nodes.

    python scripts/train/export_medusa.py [--work DIR] [--out models/demo/llm]
    python scripts/train/export_medusa.py --work own --base Qwen2.5-0.5B-Instruct --split 2    # into that folder

The tree is chosen on the LLM's answers to training prompts (rollouts.npz), by how often each head's choices are right.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from base import (
    BaseModel,
    Teacher,
    add_base,
    final_norm,
    fingerprint,
    head_weight,
    load_base,
    split_of,
)
from errors import InputError, run
from export import DEFAULT_OUT, half, load_llm_checkpoint, read_safetensors, write_json
from files import load_checkpoint, write_atomically
from generate import wire
from medusa import HEADS, RANKS, TREE_NODES, Medusa, TreePath, best_tree, choices, rank_rates
from paths import add_threads, add_work
from rollouts import load_rollouts

TREE_ANSWERS = 200  # rollouts that the tree is chosen on
BASE_TOKENS = 512  # of one rollout, for the memory estimate


@torch.no_grad()
def guess_answer(model: Teacher, medusa: Medusa, prompt: list[int], answer: list[int]) -> Tensor:
    """The heads' choices along an answer: int64 [len(answer), heads, RANKS], row i at the state that chose answer[i]."""
    ids = torch.tensor([prompt + answer[:-1]])
    split = split_of(model)
    deep = wire(model.deep(wire(model.shallow(ids, split)), split))[0, len(prompt) - 1 :]
    return choices(medusa, final_norm(model, deep), head_weight(model).float(), RANKS).cpu()


def choose_tree(model: Teacher, medusa: Medusa, work: Path, nodes: int) -> list[TreePath]:
    """The best tree for the LLM's answers to training prompts."""
    path = work / "rollouts.npz"
    rates, tokens = torch.zeros(HEADS, RANKS), 0
    for rollout in load_rollouts(path)[0][:TREE_ANSWERS]:
        answer = rollout.answer
        if len(answer) > HEADS:
            rates += rank_rates(guess_answer(model, medusa, rollout.prompt, answer), torch.tensor(answer)) * len(answer)
            tokens += len(answer)
    if not tokens:
        raise InputError(f"{path} has no answer of more than {HEADS} tokens; run rollouts.py for longer")
    return best_tree(rates / tokens, nodes)


def export_medusa(work: Path, out: Path, base: BaseModel | None = None) -> list[TreePath]:
    """Writes the heads of <work>/medusa.pt; returns their tree."""
    state = load_checkpoint(work / "medusa.pt")
    model = base or load_llm_checkpoint(work)
    if state["llm"] != fingerprint(model):
        raise InputError(f"{work / 'medusa.pt'} was trained for another LLM checkpoint; run train_medusa.py again")
    weights = half(state["medusa"])
    medusa = Medusa(model.config.hidden_size)
    medusa.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    tree = choose_tree(model, medusa.requires_grad_(False).to(head_weight(model).device), work, TREE_NODES)
    write_atomically(out / "medusa" / "medusa.safetensors", save(weights, metadata={"format": "pt"}))
    config = {"kind": "medusa", "heads": HEADS, "hidden_size": model.config.hidden_size, "tree": [list(path) for path in tree]}
    write_json(out / "medusa" / "medusa_config.json", config)
    return tree


def load_medusa(out: Path) -> tuple[Medusa, list[TreePath]]:
    """Heads (fp32, frozen) and tree of an exported directory; InputError if missing or damaged."""
    try:
        config = json.loads((out / "medusa" / "medusa_config.json").read_text())
        medusa, tree = Medusa(config["hidden_size"], config["heads"]), [tuple(path) for path in config["tree"]]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"cannot read {out / 'medusa' / 'medusa_config.json'} ({error}); run export_medusa.py") from error
    medusa.load_state_dict(read_safetensors(out / "medusa" / "medusa.safetensors"))
    return medusa.requires_grad_(False).eval(), tree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    add_base(parser)
    parser.add_argument("--out", type=Path, help="default: the --base folder, or models/demo/llm")
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    base = load_base(args.base, args.split, args.device, BASE_TOKENS) if args.base else None
    tree = export_medusa(args.work, args.out or args.base or DEFAULT_OUT, base)
    print(json.dumps({"tree": tree}))


if __name__ == "__main__":
    run(main)
