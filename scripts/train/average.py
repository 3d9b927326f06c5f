"""Averages the weights of checkpoints of one shape, for a run to go on from.

    python scripts/train/average.py --names llm-512 llm-2048 --out llm-mean

A short run at full rates forgets some of what the long one before it has learnt; the mean of both keeps what each knows
(model soups, Wortsman et al. 2022, arXiv:2203.05482). Writes <work>/<out>.pt: weights, and Λ where all have one.
"""

import argparse
import json

import torch
from torch import Tensor

from errors import InputError, run
from files import load_checkpoint, save_checkpoint
from paths import add_work

Tensors = dict[str, Tensor]


def mean_of(states: list[Tensors]) -> Tensors:
    """Tensor by tensor; InputError where names or shapes differ."""
    first = states[0]
    for state in states[1:]:
        if state.keys() != first.keys() or any(state[name].shape != first[name].shape for name in first):
            raise InputError("the checkpoints are of models of different shapes")
    return {name: torch.stack([state[name].float() for state in states]).mean(0) for name in first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--names", nargs="+", required=True, help="checkpoints to average; the last one's context is kept")
    parser.add_argument("--out", required=True, help="name of the new checkpoint")
    args = parser.parse_args()
    states = [load_checkpoint(args.work / f"{name}.pt") for name in args.names]
    mean = {"config": states[-1]["config"], "model": mean_of([state["model"] for state in states])}
    if all("adapter" in state for state in states):
        mean["adapter"] = mean_of([state["adapter"] for state in states])
    save_checkpoint(args.work / f"{args.out}.pt", mean)
    print(json.dumps({"averaged": args.names, "weights": sum(tensor.numel() for tensor in mean["model"].values())}))


if __name__ == "__main__":
    run(main)
