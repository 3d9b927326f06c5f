"""Writes <out>/medusa/{medusa_config.json, medusa.safetensors}, fp16, with the verification tree of eight nodes.

    python scripts/train/export_medusa.py [--work DIR] [--out models/demo/llm]

The tree is chosen on the LLM's answers to training prompts (rollouts.npz), by how often each head's choices come true.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from distil import fingerprint
from errors import InputError, run
from export import DEFAULT_OUT, SPLIT, half, load_llm_checkpoint, read_safetensors, write_json
from files import load_checkpoint, write_atomically
from generate import wire
from medusa import HEADS, RANKS, TREE_NODES, Medusa, TreePath, best_tree, choices, rank_rates
from model import Llama
from paths import add_work
from rollouts import load_rollouts
from tokenizer import IM_START, load_tokenizer, render

TREE_ANSWERS = 200  # rollouts that the tree is chosen on


@torch.no_grad()
def guess_answer(model: Llama, medusa: Medusa, prompt: list[int], answer: list[int]) -> Tensor:
    """The heads' choices along an answer: int64 [len(answer), heads, RANKS], row i at the state that chose answer[i]."""
    ids = torch.tensor([prompt + answer[:-1]])
    deep = wire(model.deep(wire(model.shallow(ids, SPLIT)), SPLIT))[0, len(prompt) - 1 :]
    return choices(medusa, model.model.norm(deep), model.model.embed_tokens.weight, RANKS)


def split_rollout(sequence: np.ndarray, header: list[int]) -> tuple[list[int], list[int]]:
    """(prompt, answer) of a rollout: the answer follows its last assistant header, which starts with <|im_start|>."""
    ids = sequence.tolist()
    start = len(ids) - ids[::-1].index(header[0]) - 1 + len(header)
    return ids[:start], ids[start:]


def choose_tree(model: Llama, medusa: Medusa, work: Path, nodes: int) -> list[TreePath]:
    """The best tree for the LLM's answers to training prompts."""
    path = work / "rollouts.npz"
    if not path.is_file():
        raise InputError(f"{path} is missing; run rollouts.py first, the tree is chosen on it")
    tokenizer = load_tokenizer(work)
    header = tokenizer.encode(render([], add_generation_prompt=True)).ids
    if header[0] != tokenizer.token_to_id(IM_START):
        raise InputError(f"{work / 'tokenizer.json'} does not know the chat template's tokens; run tokenizer.py again")
    rates, tokens = torch.zeros(HEADS, RANKS), 0
    for sequence in load_rollouts(path)[0][:TREE_ANSWERS]:
        prompt, answer = split_rollout(sequence, header)
        if len(answer) > HEADS:
            rates += rank_rates(guess_answer(model, medusa, prompt, answer), torch.tensor(answer)) * len(answer)
            tokens += len(answer)
    if not tokens:
        raise InputError(f"{path} holds no answer longer than {HEADS} tokens; let rollouts.py run longer")
    return best_tree(rates / tokens, nodes)


def export_medusa(work: Path, out: Path) -> list[TreePath]:
    """Writes the heads of <work>/medusa.pt; returns their tree."""
    state, model = load_checkpoint(work / "medusa.pt"), load_llm_checkpoint(work)
    if state["llm"] != fingerprint(model):
        raise InputError(f"{work / 'medusa.pt'} was trained for another LLM checkpoint; run train_medusa.py again")
    weights = half(state["medusa"])
    medusa = Medusa(model.config.hidden_size)
    medusa.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    tree = choose_tree(model, medusa.requires_grad_(False), work, TREE_NODES)
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
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(json.dumps({"tree": export_medusa(args.work, args.out)}))


if __name__ == "__main__":
    run(main)
