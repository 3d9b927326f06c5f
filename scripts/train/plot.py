"""Plots the training curves into docs/results/training/ and copies their JSON there.

    python scripts/train/plot.py [--work DIR] [--out DIR]
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from errors import InputError, run
from files import write_atomically
from paths import REPOSITORY, add_work

DEFAULT_RESULTS = REPOSITORY / "docs" / "results" / "training"


def read_curve(path: Path) -> list[dict]:
    """The points of a curve file."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the curve {path} ({error}); run the training step that writes it") from error


def plot(llm: list[dict], adapter: list[dict], path: Path) -> None:
    """Left: LLM training loss and held-out perplexity over tokens. Right: adapter agreement over steps."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    steps = [point for point in llm if "loss" in point]
    left.plot([p["tokens"] / 1e6 for p in steps], [p["loss"] for p in steps], color="0.6", label="training loss")
    left.set(xlabel="training tokens (millions)", ylabel="loss (nats per token)", title="LLM", ylim=(1.2, 5))
    held_out = [point for point in llm if "heldOutPerplexity" in point]
    other = left.twinx()
    for task in held_out[0]["heldOutPerplexity"] if held_out else ():
        values = [point["heldOutPerplexity"][task] for point in held_out]
        other.plot([p["tokens"] / 1e6 for p in held_out], values, marker="o", markersize=3, label=f"{task}, held out")
    other.set(ylabel="held-out perplexity", yscale="log", ylim=(2, 600))
    lines = left.get_legend_handles_labels()
    more = other.get_legend_handles_labels()
    other.legend(lines[0] + more[0], lines[1] + more[1], fontsize=8, ncols=2, loc="upper right")
    right.plot([p["step"] for p in adapter], [p["agreement"] for p in adapter], label="first choice agrees with the LLM")
    right.plot([p["step"] for p in adapter], [p["loss"] for p in adapter], color="0.6", label="distillation loss")
    right.set(xlabel="steps", title="adapter Λ", ylim=(0, 1.2))
    right.legend(fontsize=8)
    beside = path.with_name(f".{path.name}")
    figure.savefig(beside, format="png", dpi=110, metadata={"Software": None})
    beside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--out", type=Path, default=DEFAULT_RESULTS)
    args = parser.parse_args()
    llm, adapter = read_curve(args.work / "llm-curve.json"), read_curve(args.work / "adapter-curve.json")
    args.out.mkdir(parents=True, exist_ok=True)
    for name, curve in (("llm-curve.json", llm), ("adapter-curve.json", adapter)):
        lines = ",\n".join(json.dumps(point) for point in curve)
        write_atomically(args.out / name, f"[\n{lines}\n]\n".encode())
    plot(llm, adapter, args.out / "training.png")
    print(json.dumps({"written": ["llm-curve.json", "adapter-curve.json", "training.png"]}))


if __name__ == "__main__":
    run(main)
