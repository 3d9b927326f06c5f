"""Batched generation with the reference's rounding: states are rounded to fp16 at both cuts, as on the wire."""

import torch
from torch import Tensor

from base import BaseModel, Teacher
from model import make_caches


def wire(states: Tensor) -> Tensor:
    """fp32 → fp16 → fp32, same shape: the rounding of a hidden state between device and cloud."""
    return states.half().float()


def choose(logits: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """Next ids [batch] from logits [batch, vocab]: the largest at temperature 0, else a sample."""
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]


@torch.no_grad()
def generate(
    model: Teacher,
    prompts: list[list[int]],
    max_new: int,
    stop: set[int],
    split: int = 1,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Answers (token ids, the stop token included) to prompts of one common length."""
    ids = torch.tensor(prompts)  # [batch, prompt]
    max_new = min(max_new, model.config.max_position_embeddings - ids.shape[1])
    if isinstance(model, BaseModel):
        caches = model.make_caches()
    else:
        caches = make_caches(model.config, len(prompts), ids.shape[1] + max_new)
    answers: list[list[int]] = [[] for _ in prompts]
    running = [True] * len(prompts)
    for _ in range(max_new):
        deep = model.deep(wire(model.shallow(ids, split, caches)), split, caches)[:, -1]
        ids = choose(model.head(wire(deep)).float().cpu(), temperature, generator)[:, None]
        for row, token in enumerate(ids[:, 0].tolist()):
            if running[row]:
                answers[row].append(token)
                running[row] = token not in stop
        if not any(running):
            break
    return answers


def same_length_batches(prompts: list[list[int]], batch: int) -> list[list[int]]:
    """Indices of prompts in batches of equal prompt length (no padding), each of at most `batch` rows."""
    by_length: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    return [group[at : at + batch] for _, group in sorted(by_length.items()) for at in range(0, len(group), batch)]
