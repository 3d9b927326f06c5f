"""Trains HAT's adapter Λ by distillation from the frozen LLM; resumes by itself from <work>/adapter.pt.

    nice -n 10 python scripts/train/train_adapter.py --minutes 10

Text: the training windows, and the LLM's own answers (rollouts.py) where <work>/rollouts.npz exists.
Writes <work>/adapter.pt and <work>/adapter-curve.json.
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from distil import Distillation, LossOf, add_budget, run_distillation, teacher_states
from errors import run
from model import Adapter, Llama

W_CE = 0.1  # HAT Eq. 4


def make_adapter(model: Llama, seed: int) -> Adapter:
    """An untrained adapter for an LLM."""
    adapter = Adapter(model.config)
    adapter.initialise(seed)
    return adapter


def distillation_loss(model: Llama, states: Tensor, f_l: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, agreement of the two models' first choices), means over the positions where keep [batch, time] is 1.

    HAT Eq. 4: SmoothL1(f_L, f_S) + w_ce · CE(H(f_L), H(f_S)). f is taken after the final norm: before it
    the residual stream is large (rms about 19), and SmoothL1 would drown the CE term. `states`: the adapter's,
    before that norm; f_l after it; both [batch, time, hidden].
    """
    head = model.model.embed_tokens.weight
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p_l = F.linear(f_l, head).float().softmax(-1)  # [batch, time, vocab]
        f_s = model.model.norm(states)
        log_p_s = F.linear(f_s, head).float().log_softmax(-1)
    per_token = F.smooth_l1_loss(f_s, f_l, reduction="none").mean(-1) - W_CE * (p_l * log_p_s).sum(-1)
    agreement = (p_l.argmax(-1) == log_p_s.argmax(-1)).float()
    return (per_token * keep).sum() / keep.sum(), (agreement * keep).sum() / keep.sum()


def adapter_loss(model: Llama, adapter: Adapter, shallow: Tensor, f_l: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """distillation_loss of the adapter on shallow states [batch, time, hidden]."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = adapter(shallow)
    return distillation_loss(model, states, f_l, keep)


def adapter_loss_of(training: Distillation, compiled: bool) -> LossOf:
    """The loss of a training batch."""
    step_loss = torch.compile(adapter_loss) if compiled else adapter_loss
    return lambda inputs, keep: step_loss(training.model, training.student, *teacher_states(training.model, inputs), keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_budget(parser)
    args = parser.parse_args()
    run_distillation(args, "adapter", lambda model: make_adapter(model, args.seed), adapter_loss_of)


if __name__ == "__main__":
    run(main)
