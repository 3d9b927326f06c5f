"""Trains HAT's adapter Λ in the paper's form, by distillation from the frozen LLM; resumes from <work>/adapter-paper.pt.

    nice -n 10 python scripts/train/train_paper_adapter.py --minutes 10
    python scripts/train/train_paper_adapter.py --base Qwen2.5-0.5B-Instruct --work own --split 2    # OWN_MODELS.md

It starts from the Λ of the LLM's early exit if there is one.
Text: the training windows, and the LLM's own answers (rollouts.py) where <work>/rollouts.npz exists.
Writes <work>/adapter-paper.pt and <work>/adapter-paper-curve.json.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from base import Teacher
from distil import Distillation, LossOf, add_budget, distillation_loss, early_exit, run_distillation, teacher_states
from errors import run
from model import Adapter

W_CE = 0.1  # HAT Eq. 4


def make_paper_adapter(model: Teacher, seed: int) -> Adapter:
    """An untrained plain adapter for an LLM."""
    adapter = Adapter(model.config)
    adapter.initialise(seed)
    return adapter


def make_student(model: Teacher, work: Path, seed: int) -> Adapter:
    """A plain adapter that starts as the Λ of the LLM's early exit if there is one."""
    return early_exit(model, work) or make_paper_adapter(model, seed)


def adapter_loss(model: Teacher, adapter: Adapter, shallow: Tensor, deep: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """HAT Eq. 4 for shallow and deep states [batch, time, hidden]."""
    with torch.autocast(shallow.device.type, dtype=torch.bfloat16):
        states = adapter(shallow)
    return distillation_loss(model, states, deep, keep, 1.0, W_CE)


def adapter_loss_of(training: Distillation, compiled: bool) -> LossOf:
    """The loss of a training batch."""
    step_loss = torch.compile(adapter_loss) if compiled else adapter_loss
    return lambda inputs, keep: step_loss(training.model, training.student, *teacher_states(training.model, inputs), keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_budget(parser)
    args = parser.parse_args()
    run_distillation(args, "adapter-paper", lambda model: make_student(model, args.work, args.seed), adapter_loss_of)


if __name__ == "__main__":
    run(main)
