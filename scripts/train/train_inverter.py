"""Trains a transformer that reads what a device sends and names the token of each row: the attacker without weights of
`brim privacy audit --inverter`. Resumes from <work>/<name>.pt.

    nice -n 10 python scripts/train/train_inverter.py --steps 200
    nice -n 10 python scripts/train/train_inverter.py --noise 1 --name inverter-noise-1       # against a defence that it knows
    nice -n 10 python scripts/train/train_inverter.py --cut models/demo/cuts/cut-128-1.safetensors --name inverter-cut-128-1
    bin/brim model build <work>/inverter --split 1 --out inverter --drafters none

It is a Llama whose layers after the first read the rows. It begins untrained: such an attacker has pairs of tokens and rows, as from a device of
their own, and no weights. It learns from --task alone, and is tested on held-out texts of every task.
Writes <work>/<name>/ as a checkpoint, and prints for each task the share of tokens that are its first guess, or among ten, with
95 % bootstrap intervals over the texts.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cut import Cut, load_cut
from dataset import IGNORE, Batches, load_groups, some_of, to_batch
from errors import InputError, run
from export import export_llm, load_llm_checkpoint
from files import load_checkpoint, save_checkpoint
from generate import wire
from model import SPLIT, LlmConfig, Llama
from optimizer import make_optimizers, rate, set_rate
from paths import REPOSITORY, add_seed, add_threads, add_work

MUON_LR, ADAM_LR = 0.02, 0.004
CONTEXT, BATCH = 128, 16
SAVE_EVERY_S = 30.0
HELD_OUT_TEXTS = 24
RESAMPLES = 1000


class Sender:
    """What leaves the device of an LLM: its shallow states, with noise over each row's root mean square, or as a cut sends them."""

    def __init__(self, model: Llama, noise: float, cut: Cut | None):
        self.model, self.noise, self.cut = model, noise, cut

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> Tensor:
        """ids [batch, time] → rows [batch, time, hidden]; zeros behind a narrower code. The first row is as it is."""
        states = wire(self.model.shallow(inputs, SPLIT))
        if self.cut:
            sent = F.pad(self.cut.send(states), (0, states.shape[-1] - self.cut.width))
        else:
            sent = states + self.noise * states.square().mean(-1, keepdim=True).sqrt() * torch.randn_like(states)
        return torch.cat((states[:, :1], sent[:, 1:]), dim=1)


def make_inverter(config: LlmConfig, layers: int, seed: int) -> Llama:
    """Untrained, with `layers` layers that read rows, after a first one that is never used."""
    inverter = Llama(LlmConfig(**{**config.to_dict(), "num_hidden_layers": SPLIT + layers}))
    inverter.initialise(seed)
    return inverter


def guesses(inverter: Llama, rows: Tensor) -> Tensor:
    """Rows [batch, time, hidden] → logits of the token of each [batch, time, vocab]."""
    return inverter.head(inverter.deep(rows, SPLIT))


def train(args: argparse.Namespace, sender: Sender, inverter: Llama) -> None:
    """Up to --steps, those before a restart included."""
    path = args.work / f"{args.name}.pt"
    pieces = load_groups(args.work, "train", CONTEXT + 1).get(args.task)
    if not pieces:
        raise InputError(f"no training examples of the task {args.task}")
    batches, optimizers, steps = Batches(pieces, CONTEXT, BATCH, args.seed), make_optimizers(inverter, MUON_LR, ADAM_LR), 0
    if path.exists():
        state = load_checkpoint(path)
        inverter.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        batches.go_to(*state["batches"])
        steps = state["steps"]
    saved = time.monotonic()

    def save() -> None:
        parts = {"optimizers": [one.state_dict() for one in optimizers], "batches": (batches.epoch, batches.next_batch)}
        save_checkpoint(path, {"config": inverter.config.to_dict(), "model": inverter.state_dict(), "steps": steps, **parts})

    while steps < args.steps:
        set_rate(optimizers, rate(steps / args.steps))
        inputs, targets = batches.next()
        logits = guesses(inverter, sender(inputs))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.where(targets == IGNORE, IGNORE, inputs).flatten(), ignore_index=IGNORE)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        steps += 1
        if time.monotonic() - saved >= SAVE_EVERY_S:
            save()
            print(json.dumps({"name": args.name, "steps": steps, "loss": round(loss.item(), 3)}), flush=True)
            saved = time.monotonic()
    save()


def interval(shares: list[float]) -> dict[str, float]:
    """Mean and the ends of its 95 % bootstrap interval."""
    values = np.array(shares)
    means = values[np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))].mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return {"mean": round(values.mean().item(), 3), "low": round(low.item(), 3), "high": round(high.item(), 3)}


@torch.no_grad()
def recovered(work: Path, sender: Sender, inverter: Llama) -> dict[str, dict]:
    """{task: top1 and top10} over held-out texts; the first token of a text is known and not counted."""
    torch.manual_seed(0)
    found = {}
    for task, pieces in load_groups(work, "val", CONTEXT + 1).items():
        shares: list[list[float]] = [[], []]
        for piece in some_of(pieces, HELD_OUT_TEXTS * CONTEXT)[:HELD_OUT_TEXTS]:
            inputs, _ = to_batch([piece], max(1, len(piece) - 1))
            best = guesses(inverter, sender(inputs))[0, 1:].topk(10).indices
            hits = best == inputs[0, 1:, None]
            if len(hits):
                shares[0].append(hits[:, 0].float().mean().item())
                shares[1].append(hits.any(-1).float().mean().item())
        if shares[0]:
            found[task] = {"texts": len(shares[0]), "top1": interval(shares[0]), "top10": interval(shares[1])}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--llm", default=str(REPOSITORY / "models" / "demo" / "llm"), help="exported folder (default: models/demo/llm)")
    parser.add_argument("--name", default="inverter", help="of the files in <work> (default: inverter)")
    parser.add_argument("--task", default="sgd", help="the texts that it learns from (default: sgd)")
    parser.add_argument("--layers", type=int, default=2, help="default: 2")
    parser.add_argument("--steps", type=int, default=200, help="of training (default: 200)")
    sent = parser.add_mutually_exclusive_group()
    sent.add_argument("--noise", type=float, default=0.0, help="of the rows that it is to invert, over their root mean square (default: 0)")
    sent.add_argument("--cut", type=Path, help="the learned pair whose codes it is to invert")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = load_llm_checkpoint(args.work, args.llm)
    sender = Sender(model, args.noise, load_cut(args.cut, model.config) if args.cut else None)
    inverter = make_inverter(model.config, args.layers, args.seed)
    train(args, sender, inverter)
    export_llm(args.work, args.work / args.name, args.name)
    print(json.dumps({"name": args.name, "task": args.task, "recovered": recovered(args.work, sender, inverter.eval())}))


if __name__ == "__main__":
    run(main)
