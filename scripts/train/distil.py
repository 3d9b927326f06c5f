"""A resumable distillation run: a small student is trained on states of the frozen LLM; one file per student."""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from base import (
    LARGEST_LOGITS,
    BaseModel,
    Teacher,
    add_base,
    final_norm,
    fingerprint,
    head_weight,
    load_base,
    split_of,
)
from curves import Curve, curve_path, write_curve
from dataset import IGNORE, TASKS, Batches, load_pieces
from errors import InputError
from export import load_exported_adapter, load_llm_checkpoint
from export_medusa import load_medusa
from files import load_checkpoint, save_checkpoint
from generate import wire
from model import Adapter
from optimizer import make_optimizers, rate, set_rate
from paths import add_seed, add_threads, add_work
from rollouts import load_rollouts

ROLLOUT_WEIGHT = 8  # how often an epoch shows each of the LLM's own answers
MUON_LR, ADAM_LR = 0.02, 0.002
BASE_CONTEXT = 512  # tokens of a window for a --base checkpoint, whose own limit may be 128k
STEPS = 1500  # of a run without any budget
CURVE_EVERY_S, SAVE_EVERY_S = 10.0, 60.0
# (inputs int64 [batch, time], keep fp32 [batch, time], 1 where a token follows) → (loss, agreement with the LLM of any shape)
LossOf = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@torch.no_grad()
def teacher_states(model: Teacher, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """ids [batch, time] → (shallow, deep states as on the wire), both fp32 [batch, time, hidden]."""
    split = split_of(model)
    # A base computes in the precision that it was loaded in.
    with torch.autocast("cpu", torch.bfloat16, enabled=not isinstance(model, BaseModel)):
        shallow = wire(model.shallow(inputs, split))
        deep = wire(model.deep(shallow, split))
    if not torch.isfinite(deep).all():
        raise InputError("a hidden state of the checkpoint exceeds fp16, the format on the wire, so the checkpoint cannot be split")
    return shallow, deep


def in_blocks(part: Callable[..., tuple[Tensor, Tensor]], vocab: int, *rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of part(*rows) over blocks of rows [positions, …] whose logits stay under LARGEST_LOGITS numbers.

    More than one block: the logits are computed again for the gradient, so that one block's exist at a time.
    """
    size = max(1, LARGEST_LOGITS // vocab)
    if len(rows[0]) <= size:
        return part(*rows)
    blocks = zip(*(row.split(size) for row in rows), strict=True)
    sums = [checkpoint(part, *block, use_reentrant=False) for block in blocks]
    return sum(first for first, _ in sums), sum(second for _, second in sums)


def distillation_loss(
    model: Teacher, states: Tensor, deep: Tensor, keep: Tensor, w_states: float, w_ce: float, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(loss, agreement of the two models' first choices), means over the positions where keep [batch, time] is 1.

    w_states · SmoothL1(f_L, f_S) + w_ce · CE(H(f_L), H(f_S)); HAT Eq. 4 has 1 and 0.1. f is taken after the final
    norm: before it the residual stream is large (rms about 19), and SmoothL1 would drown the CE term. `states`: the
    draft model's, `deep`: the LLM's, both before that norm, [batch, time, hidden]. H(f_L) is taken at `temperature`: HAT
    drafts until the draft model's probability falls under η, and below 1 that probability comes nearer to how often its
    first choice is the LLM's, which is what the answers of a user who decodes at a low temperature need.
    """
    head, device = head_weight(model), states.device.type

    def part(states: Tensor, deep: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast(device, dtype=torch.bfloat16):
            f_l, f_s = final_norm(model, deep), final_norm(model, states)
            p_l = (F.linear(f_l, head).float() / temperature).softmax(-1)  # [positions, vocab]
            log_p_s = F.linear(f_s, head).float().log_softmax(-1)
        distance = F.smooth_l1_loss(f_s, f_l, reduction="none").mean(-1)
        per_token = w_states * distance - w_ce * (p_l * log_p_s).sum(-1)
        agreement = (p_l.argmax(-1) == log_p_s.argmax(-1)).float()
        return (per_token * weight).sum(), (agreement * weight).sum()

    weight = keep / keep.sum().clamp(min=1)
    return in_blocks(part, len(head), states.flatten(0, 1), deep.flatten(0, 1), weight.flatten())


def training_pieces(work: Path, longest: int, rollouts_only: bool = False) -> list[np.ndarray]:
    """Training examples and, ROLLOUT_WEIGHT times each, the LLM's rollouts, whose answers are trained on; or only the rollouts."""
    path = work / "rollouts.npz"
    own = [rollout.marked()[:longest] for rollout in load_rollouts(path)[0]] if path.exists() else []
    if not rollouts_only:
        return load_pieces(work, "train", longest) + own * ROLLOUT_WEIGHT
    if not own:
        raise InputError(f"{path} is missing; run rollouts.py first, or train without --rollouts-only")
    return own


def early_exit(model: Teacher, work: Path) -> Adapter | None:
    """The plain Λ that the LLM of <work> was trained with, where it has one (train_llm.py --early-exit)."""
    weights = None if isinstance(model, BaseModel) else load_checkpoint(work / "llm.pt").get("adapter")
    if not weights:
        return None
    plain = Adapter(model.config)
    plain.load_state_dict(weights)
    return plain


class Distillation:
    """Student, optimisers, data position and curve of one run: the content of <work>/<name>.pt."""

    def __init__(
        self,
        work: Path,
        name: str,
        make_student: Callable[[Teacher], nn.Module],
        batch: int,
        seed: int,
        context: int | None = None,
        base: BaseModel | None = None,
        rollouts_only: bool = False,
    ):
        self.name, self.path = name, work / f"{name}.pt"
        self.model: Teacher = base or load_llm_checkpoint(work)
        self.llm = fingerprint(self.model)
        self.student = make_student(self.model)
        self.device = base.device if base else torch.device("cpu")
        self.student.to(self.device)
        self.optimizers = make_optimizers(self.student, MUON_LR, ADAM_LR)
        context = min(context or self.model.config.max_position_embeddings, self.model.config.max_position_embeddings)
        self.batches = Batches(training_pieces(work, context + 1, rollouts_only), context, batch, seed)
        self.step, self.seconds = 0, 0.0
        self.curve: list[dict] = []
        # Settings of the steps so far; one more entry when a run continues with other settings.
        self.phases = [{"examples": "rollouts.npz" if rollouts_only else TASKS, "context": context, "batch": batch, "fromStep": 0}]

    def resume(self) -> None:
        """Resumes from the checkpoint; InputError if it belongs to another LLM or to another kind of student."""
        state = load_checkpoint(self.path)
        if state["llm"] != self.llm:
            raise InputError(f"{self.path} was trained for another LLM checkpoint; delete it to restart")
        if state[self.name].keys() != self.student.state_dict().keys():
            raise InputError(f"{self.path} has a drafter of another form; delete it to restart")
        self.student.load_state_dict(state[self.name])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.batches.go_to(state["epoch"], state["next_batch"])
        self.step, self.seconds, self.curve = state["step"], state["seconds"], state["curve"]
        before, now = state["phases"], {**self.phases[0], "fromStep": self.step}
        self.phases = before if {**before[-1], "fromStep": self.step} == now else [*before, now]

    def save(self) -> None:
        """Writes the checkpoint, then the curve beside it."""
        state = {
            "config": self.model.config.to_dict(),
            "llm": self.llm,
            "split": split_of(self.model),
            self.name: self.student.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "epoch": self.batches.epoch,
            "next_batch": self.batches.next_batch,
            "step": self.step,
            "seconds": self.seconds,
            "curve": self.curve,
            "phases": self.phases,
        }
        save_checkpoint(self.path, state)
        write_curve(curve_path(self.path), Curve(self.curve, {"phases": self.phases}))


def distil(training: Distillation, loss_of: LossOf, max_seconds: float, max_steps: float) -> None:
    """Trains until the budget (seconds or steps, whichever ends first) is used up, saving every minute and at the end."""
    shown = saved = training.seconds
    losses: list[float] = []
    agreements: list[np.ndarray] = []
    while training.seconds < max_seconds and training.step < max_steps:
        started = time.perf_counter()
        set_rate(training.optimizers, rate(max(training.seconds / max_seconds, training.step / max_steps)))
        inputs, targets = training.batches.next()
        loss, agreement = loss_of(inputs.to(training.device), (targets != IGNORE).float().to(training.device))
        loss.backward()
        for optimizer in training.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        agreements.append(agreement.detach().cpu().numpy())
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


def exported_student(folder: Path, name: str, model: Teacher) -> dict[str, Tensor]:
    """The weights of a drafter of an exported folder, which may belong to another LLM of the same shape."""
    found = load_medusa(folder)[0] if name == "medusa" else load_exported_adapter(folder, model.config, name)
    return found.state_dict()


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Adds the options of every distillation command."""
    add_work(parser)
    parser.add_argument("--minutes", type=float, default=math.inf, help="training time in minutes, summed over restarts (default: no limit)")
    parser.add_argument("--steps", type=float, help=f"total steps; the run ends at the first limit reached (default: {STEPS}, with --minutes no limit)")
    parser.add_argument("--rollouts-only", action="store_true", help="continue training on only the LLM's own answers")
    parser.add_argument("--context", type=int, help=f"tokens per window (default: the LLM's context, with --base {BASE_CONTEXT})")
    parser.add_argument("--start", type=Path, metavar="DIR", help="begin with the drafter of an exported folder such as models/demo/llm")
    add_base(parser)
    parser.add_argument("--batch", type=int, default=8, help="windows per step (default: 8)")
    add_seed(parser)
    add_threads(parser)


def run_distillation(
    args: argparse.Namespace,
    name: str,
    make_student: Callable[[Teacher], nn.Module],
    make_loss: Callable[[Distillation], LossOf],
) -> None:
    """The command of a student: trains <work>/<name>.pt, from its checkpoint if it exists, within the budget."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    steps = (STEPS if math.isinf(args.minutes) else math.inf) if args.steps is None else args.steps
    context = args.context or (BASE_CONTEXT if args.base else None)
    base = load_base(args.base, args.split, args.device, args.batch * context) if args.base else None
    training = Distillation(args.work, name, make_student, args.batch, args.seed, context, base, args.rollouts_only)
    if training.path.exists():
        training.resume()
        print(json.dumps({"resumedAtStep": training.step}), flush=True)
    elif args.start:
        training.student.load_state_dict(exported_student(args.start, name, training.model))
    distil(training, make_loss(training), args.minutes * 60, steps)
    print(json.dumps({"steps": training.step, "seconds": round(training.seconds, 1)}))
