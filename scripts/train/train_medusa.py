"""Trains four Medusa heads on the frozen LLM, the baseline for HAT's adapter; resumes by itself from <work>/medusa.pt.

    nice -n 10 python scripts/train/train_medusa.py --minutes 10
    python scripts/train/train_medusa.py --base Qwen2.5-0.5B-Instruct --work own --split 2    # OWN_MODELS.md

Text: the training windows, and the LLM's own answers (rollouts.py) where <work>/rollouts.npz exists.
Writes <work>/medusa.pt and <work>/medusa-curve.json.
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from base import Teacher, final_norm, head_weight
from distil import Distillation, LossOf, add_budget, in_blocks, run_distillation, teacher_states
from errors import run
from medusa import Medusa

HEAD_DECAY = 0.8  # weight of head k's loss is this to the k-th power, as in Medusa-1


def make_heads(model: Teacher) -> Medusa:
    """Untrained heads for an LLM."""
    medusa = Medusa(model.config.hidden_size)
    medusa.initialise()
    return medusa


def medusa_loss(model: Teacher, medusa: Medusa, f: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, each head's agreement with the LLM's first choice k places on, fp32 [heads]).

    Σ_k 0.8^k · CE(H(f[t + k]), H(h_k[t])), means over the positions t whose t + k has keep [batch, time] 1. The
    LLM's own distributions are the targets, not the text: acceptance asks what the LLM would say.
    """
    head, device = head_weight(model), f.device.type

    def part(states: Tensor, wanted: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast(device, dtype=torch.bfloat16):
            p = F.linear(wanted, head).float().softmax(-1)  # [positions, vocab]
            log_p = F.linear(states, head).float().log_softmax(-1)
        return -((p * log_p).sum(-1) * weight).sum(), ((p.argmax(-1) == log_p.argmax(-1)) * weight).sum()

    loss, agreements = f.new_zeros(()), []
    with torch.autocast(device, dtype=torch.bfloat16):
        guessed = medusa(f)
    for index, states in enumerate(guessed):
        ahead = index + 1
        weight = keep[:, ahead:] / keep[:, ahead:].sum().clamp(min=1)
        rows = (states[:, :-ahead].flatten(0, 1), f[:, ahead:].flatten(0, 1), weight.flatten())
        head_loss, agreement = in_blocks(part, len(head), *rows)
        loss = loss + HEAD_DECAY**ahead * head_loss
        agreements.append(agreement)
    return loss, torch.stack(agreements)


def medusa_loss_of(training: Distillation) -> LossOf:
    """The loss of a training batch."""
    def loss_of(inputs: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        _, deep = teacher_states(training.model, inputs)
        with torch.no_grad():
            f = final_norm(training.model, deep)
        return medusa_loss(training.model, training.student, f, keep)

    return loss_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_budget(parser)
    run_distillation(parser.parse_args(), "medusa", make_heads, medusa_loss_of)


if __name__ == "__main__":
    run(main)
