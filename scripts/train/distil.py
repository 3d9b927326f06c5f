"""A resumable distillation run: a small student learns from states of the frozen LLM, in one file per student."""

import argparse
import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dataset import CHATS, IGNORE, Batches, add_tasks, load_pieces
from errors import InputError
from export import SPLIT, load_llm_checkpoint
from files import load_checkpoint, save_checkpoint, write_atomically
from generate import wire
from model import Llama
from optimizer import make_optimizers, rate, set_rate
from paths import add_work
from rollouts import load_rollouts

ROLLOUT_WEIGHT = 8  # how often an epoch shows each of the LLM's own answers
MUON_LR, ADAM_LR = 0.02, 0.002
CURVE_EVERY_S, SAVE_EVERY_S = 10.0, 60.0
# (inputs int64 [batch, time], keep fp32 [batch, time], 1 where a token follows) → (loss, agreement with the LLM of any shape)
LossOf = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@torch.no_grad()
def teacher_states(model: Llama, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """ids [batch, time] → (shallow states, f_L after the final norm), both fp32 [batch, time, hidden]."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shallow = wire(model.shallow(inputs, SPLIT))
        return shallow, model.model.norm(wire(model.deep(shallow, SPLIT)))


def training_pieces(work: Path, longest: int, file: str) -> list[np.ndarray]:
    """Training examples and, ROLLOUT_WEIGHT times each, the LLM's rollouts."""
    pieces = load_pieces(work, "train", None, longest, file)
    if (work / "rollouts.npz").exists():
        sequences, _ = load_rollouts(work / "rollouts.npz")
        pieces += [sequence[:longest] for sequence in sequences] * ROLLOUT_WEIGHT
    return pieces


def fingerprint(model: Llama) -> str:
    """A short hash of the LLM's weights: a student fits one LLM only."""
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


class Distillation:
    """Student, optimisers, data position and curve of one run: all that <work>/<name>.pt holds."""

    def __init__(
        self, work: Path, name: str, make_student: Callable[[Llama], nn.Module], batch: int, seed: int, file: str = CHATS
    ):
        self.name, self.path = name, work / f"{name}.pt"
        self.model = load_llm_checkpoint(work)
        self.llm = fingerprint(self.model)
        self.student = make_student(self.model)
        self.optimizers = make_optimizers(self.student, MUON_LR, ADAM_LR)
        context = self.model.config.max_position_embeddings
        self.batches = Batches(training_pieces(work, context + 1, file), context, batch, seed)
        self.step, self.seconds = 0, 0.0
        self.curve: list[dict] = []

    def resume(self) -> None:
        """Takes up the checkpoint; InputError if it belongs to another LLM."""
        state = load_checkpoint(self.path)
        if state["llm"] != self.llm:
            raise InputError(f"{self.path} was trained for another LLM checkpoint; delete it to start again")
        self.student.load_state_dict(state[self.name])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        b = self.batches
        self.batches = Batches(b.pieces, b.context, b.batch, b.seed, state["epoch"], state["next_window"])
        self.step, self.seconds, self.curve = state["step"], state["seconds"], state["curve"]

    def save(self) -> None:
        """Writes the checkpoint, then the curve beside it."""
        state = {
            "config": self.model.config.to_dict(),
            "llm": self.llm,
            self.name: self.student.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "epoch": self.batches.epoch,
            "next_window": self.batches.next_window,
            "step": self.step,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        save_checkpoint(self.path, state)
        write_atomically(self.path.with_name(f"{self.path.stem}-curve.json"), json.dumps(self.curve, indent=1).encode())


def distil(training: Distillation, loss_of: LossOf, max_seconds: float, max_steps: float) -> None:
    """Trains until the budget (seconds or steps, whichever ends first) is used up, saving every minute and at the end."""
    shape = (training.batches.batch, training.batches.context)
    loss_of(torch.zeros(shape, dtype=torch.long), torch.ones(shape))[0].backward()  # compiles outside the clock
    training.student.zero_grad(set_to_none=True)
    shown = saved = training.seconds
    losses: list[float] = []
    agreements: list[np.ndarray] = []
    while (progress := max(training.seconds / max_seconds, training.step / max_steps)) < 1:
        started = time.perf_counter()
        set_rate(training.optimizers, rate(progress))
        inputs, targets = training.batches.next()
        loss, agreement = loss_of(inputs, (targets != IGNORE).float())
        loss.backward()
        for optimizer in training.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        agreements.append(agreement.detach().numpy())
        training.step += 1
        training.seconds += time.perf_counter() - started
        if training.seconds - shown >= CURVE_EVERY_S:
            point = {
                "step": training.step,
                "seconds": round(training.seconds, 1),
                "loss": round(sum(losses) / len(losses), 4),
                "agreement": np.mean(agreements, axis=0, dtype=np.float64).round(4).tolist(),
            }
            training.curve.append(point)
            print(json.dumps(point), flush=True)
            shown, losses, agreements = training.seconds, [], []
        if training.seconds - saved >= SAVE_EVERY_S:
            training.save()
            saved = training.seconds
    training.save()


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Adds the options that every distillation command has."""
    add_work(parser)
    add_tasks(parser)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--steps", type=float, default=1500)
    parser.add_argument("--batch", type=int, default=8, help="windows per step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (no C++ compiler; slower)")


def run_distillation(
    args: argparse.Namespace,
    name: str,
    make_student: Callable[[Llama], nn.Module],
    make_loss: Callable[[Distillation, bool], LossOf],
) -> None:
    """The command of a student: trains <work>/<name>.pt, from its checkpoint where there is one, within the budget."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    training = Distillation(args.work, name, make_student, args.batch, args.seed, args.file)
    if training.path.exists():
        training.resume()
    distil(training, make_loss(training, not args.no_compile), args.minutes * 60, args.steps)
    print(json.dumps({"steps": training.step, "seconds": round(training.seconds, 1)}))
