"""Averages the weights of two runs, one of which was started from the other. The average is often better than either (WiSE-FT,
Wortsman et al. 2022, arXiv:2109.01903): it recovers what the second run forgot and retains most of what it learned.

    python scripts/train/average.py --names llm-more llm-long --share 0.6   # → <work>/llm.pt: 0.4 of the first, 0.6 of the second

Two runs from one start with different seeds can run side by side, one per core: their average is better than either.
"""

import argparse
import json

import torch
from torch import Tensor

from errors import InputError, run
from export import load_weights, weights_path
from files import save_checkpoint
from paths import add_work

WEIGHTS = ("model", "adapter")  # the adapter of an early exit, if there is one


def average(first: dict[str, Tensor], second: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """(1 − share) · first + share · second, weight by weight; InputError if the weights differ in names or shapes."""
    if {name: each.shape for name, each in first.items()} != {name: each.shape for name, each in second.items()}:
        raise InputError("the runs have weights of different names or shapes; only runs of one model can be averaged")
    return {name: torch.lerp(first[name].float(), second[name].float(), share) for name in first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--names", nargs=2, required=True, metavar=("FIRST", "SECOND"), help="checkpoints in the work folder, or exported folders")
    parser.add_argument("--share", type=float, default=0.5, help="weight of the second, 0..1 (default: 0.5)")
    parser.add_argument("--name", default="llm", help="checkpoint to write (default: llm)")
    parser.add_argument("--context", type=int, help="positions of the model that is written (default: those of the second)")
    args = parser.parse_args()
    if not 0 <= args.share <= 1:
        raise InputError(f"--share {args.share} is not between 0 and 1")
    first, second = (load_weights(weights_path(args.work, name)) for name in args.names)
    averaged = {part: average(first[part], second[part], args.share) for part in WEIGHTS if part in first and part in second}
    config = second["config"] | ({"max_position_embeddings": args.context} if args.context else {})  # positions have no weights
    save_checkpoint(args.work / f"{args.name}.pt", {"config": config, **averaged})
    print(json.dumps({"written": f"{args.name}.pt", "first": args.names[0], "second": args.names[1], "share": args.share}))


if __name__ == "__main__":
    run(main)
