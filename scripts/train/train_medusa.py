"""Trains four Medusa heads on the frozen LLM, the baseline for HAT's adapter; resumes by itself from <work>/medusa.pt.

    nice -n 10 python scripts/train/train_medusa.py --minutes 10

Text: the training windows, and the LLM's own answers (rollouts.py) where <work>/rollouts.npz exists.
Writes <work>/medusa.pt and <work>/medusa-curve.json.
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from distil import Distillation, LossOf, add_budget, run_distillation, teacher_states
from errors import run
from medusa import Medusa
from model import Llama

HEAD_DECAY = 0.8  # weight of head k's loss is this to the k-th power, as in Medusa-1


def make_heads(model: Llama) -> Medusa:
    """Untrained heads for an LLM."""
    medusa = Medusa(model.config.hidden_size)
    medusa.initialise()
    return medusa


def medusa_loss(model: Llama, medusa: Medusa, f: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, each head's agreement with the LLM's first choice k places on, fp32 [heads]).

    Σ_k 0.8^k · CE(H(f[t + k]), H(h_k[t])), means over the positions t whose t + k has keep [batch, time] 1. The
    LLM's own distributions are the targets, not the text: acceptance asks what the LLM would say.
    """
    head = model.model.embed_tokens.weight
    loss, agreements = torch.zeros(()), []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = F.linear(f, head).float().softmax(-1)  # [batch, time, vocab]
        for index, states in enumerate(medusa(f)):
            ahead = index + 1
            log_p = F.linear(states[:, :-ahead], head).float().log_softmax(-1)
            wanted, weight = p[:, ahead:], keep[:, ahead:] / keep[:, ahead:].sum()
            loss = loss - HEAD_DECAY**ahead * ((wanted * log_p).sum(-1) * weight).sum()
            agreements.append(((wanted.argmax(-1) == log_p.argmax(-1)) * weight).sum())
    return loss, torch.stack(agreements)


def medusa_loss_of(training: Distillation, compiled: bool) -> LossOf:
    """The loss of a training batch."""
    step_loss = torch.compile(medusa_loss) if compiled else medusa_loss
    return lambda inputs, keep: step_loss(training.model, training.student, teacher_states(training.model, inputs)[1], keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_budget(parser)
    run_distillation(parser.parse_args(), "medusa", make_heads, medusa_loss_of)


if __name__ == "__main__":
    run(main)
