"""Trains HAT's adapter Λ by distillation from the frozen LLM; resumes by itself from <work>/adapter.pt.

    nice -n 10 python scripts/train/train_adapter.py --minutes 10

Text: the training windows, and the LLM's own answers (rollouts.py) where <work>/rollouts.npz exists.
Writes <work>/adapter.pt and <work>/adapter-curve.json.
"""

import argparse
import hashlib
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dataset import IGNORE, Batches, load_pieces
from errors import InputError, run
from export import SPLIT, load_llm_checkpoint
from files import load_checkpoint, save_checkpoint, write_atomically
from generate import wire
from model import Adapter, Llama
from optimizer import make_optimizers, rate, set_rate
from paths import add_work
from rollouts import load_rollouts

W_CE = 0.1  # HAT Eq. 4
ROLLOUT_WEIGHT = 8  # how often an epoch shows each of the LLM's own answers
MUON_LR, ADAM_LR = 0.02, 0.002
CURVE_EVERY_S, SAVE_EVERY_S = 10.0, 60.0


@torch.no_grad()
def teacher_states(model: Llama, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """ids [batch, time] → (shallow states, f_L after the final norm), both fp32 [batch, time, hidden]."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shallow = wire(model.shallow(inputs, SPLIT))
        return shallow, model.model.norm(wire(model.deep(shallow, SPLIT)))


def distillation_loss(model: Llama, adapter: Adapter, shallow: Tensor, f_l: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, agreement of the two models' first choices), means over the positions where keep [batch, time] is 1.

    HAT Eq. 4: SmoothL1(f_L, f_S) + w_ce · CE(H(f_L), H(f_S)). f is taken after the final norm: before it
    the residual stream is large (rms about 19), and SmoothL1 would drown the CE term.
    """
    head = model.model.embed_tokens.weight
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p_l = F.linear(f_l, head).float().softmax(-1)  # [batch, time, vocab]
        f_s = model.model.norm(adapter(shallow))
        log_p_s = F.linear(f_s, head).float().log_softmax(-1)
    per_token = F.smooth_l1_loss(f_s, f_l, reduction="none").mean(-1) - W_CE * (p_l * log_p_s).sum(-1)
    agreement = (p_l.argmax(-1) == log_p_s.argmax(-1)).float()
    return (per_token * keep).sum() / keep.sum(), (agreement * keep).sum() / keep.sum()


def training_pieces(work: Path, longest: int) -> list[np.ndarray]:
    """Training chats and, ROLLOUT_WEIGHT times each, the LLM's rollouts."""
    pieces = load_pieces(work, "train", None, longest)
    if (work / "rollouts.npz").exists():
        sequences, _ = load_rollouts(work / "rollouts.npz")
        pieces += [sequence[:longest] for sequence in sequences] * ROLLOUT_WEIGHT
    return pieces


def fingerprint(model: Llama) -> str:
    """A short hash of the LLM's weights: an adapter fits one LLM only."""
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


class AdapterTraining:
    """Adapter, optimisers, data position and curve of one run: all that a checkpoint holds."""

    def __init__(self, work: Path, batch: int, seed: int):
        self.path = work / "adapter.pt"
        self.model = load_llm_checkpoint(work)
        self.llm = fingerprint(self.model)
        context = self.model.config.max_position_embeddings
        self.adapter = Adapter(self.model.config)
        self.adapter.initialise(seed)
        self.optimizers = make_optimizers(self.adapter, MUON_LR, ADAM_LR)
        self.batches = Batches(training_pieces(work, context + 1), context, batch, seed)
        self.step, self.seconds = 0, 0.0
        self.curve: list[dict] = []

    def resume(self) -> None:
        """Takes up <work>/adapter.pt; InputError if it belongs to another LLM."""
        state = load_checkpoint(self.path)
        if state["llm"] != self.llm:
            raise InputError(f"{self.path} was trained for another LLM checkpoint; delete it to start again")
        self.adapter.load_state_dict(state["adapter"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        b = self.batches
        self.batches = Batches(b.pieces, b.context, b.batch, b.seed, state["epoch"], state["next_window"])
        self.step, self.seconds, self.curve = state["step"], state["seconds"], state["curve"]

    def save(self) -> None:
        """Writes the checkpoint, then the curve."""
        state = {
            "config": self.model.config.to_dict(),
            "llm": self.llm,
            "adapter": self.adapter.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "epoch": self.batches.epoch,
            "next_window": self.batches.next_window,
            "step": self.step,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        save_checkpoint(self.path, state)
        write_atomically(self.path.with_name("adapter-curve.json"), json.dumps(self.curve, indent=1).encode())


def train(training: AdapterTraining, max_seconds: float, max_steps: float, compiled: bool) -> None:
    """Trains until the budget (minutes or steps, whichever ends first) is used up."""
    loss_of = torch.compile(distillation_loss) if compiled else distillation_loss
    if compiled:  # outside the clock
        shape = (training.batches.batch, training.batches.context)
        states = teacher_states(training.model, torch.zeros(shape, dtype=torch.long))
        loss_of(training.model, training.adapter, *states, torch.ones(shape))[0].backward()
        training.adapter.zero_grad(set_to_none=True)
    shown = saved = training.seconds
    losses: list[float] = []
    agreements: list[float] = []
    while (progress := max(training.seconds / max_seconds, training.step / max_steps)) < 1:
        started = time.perf_counter()
        set_rate(training.optimizers, rate(progress))
        inputs, targets = training.batches.next()
        states = teacher_states(training.model, inputs)
        loss, agreement = loss_of(training.model, training.adapter, *states, (targets != IGNORE).float())
        loss.backward()
        for optimizer in training.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        agreements.append(agreement.item())
        training.step += 1
        training.seconds += time.perf_counter() - started
        if training.seconds - shown >= CURVE_EVERY_S:
            point = {
                "step": training.step,
                "seconds": round(training.seconds, 1),
                "loss": round(sum(losses) / len(losses), 4),
                "agreement": round(sum(agreements) / len(agreements), 4),
            }
            training.curve.append(point)
            print(json.dumps(point), flush=True)
            shown, losses, agreements = training.seconds, [], []
        if training.seconds - saved >= SAVE_EVERY_S:
            training.save()
            saved = training.seconds
    training.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--steps", type=float, default=1500)
    parser.add_argument("--batch", type=int, default=8, help="windows of 512 tokens per step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (no C++ compiler; slower)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    training = AdapterTraining(args.work, args.batch, args.seed)
    if training.path.exists():
        training.resume()
    train(training, args.minutes * 60, args.steps, not args.no_compile)
    print(json.dumps({"steps": training.step, "seconds": round(training.seconds, 1)}))


if __name__ == "__main__":
    run(main)
