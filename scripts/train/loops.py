"""Text that repeats itself, and the loss that unteaches it.

A small model's greedy answers soon go round in circles: every repetition makes the next one likelier. As in DITTO (Xu et
al. 2022, arXiv:2206.02369) spans of training text are repeated artificially, and as in unlikelihood training (Welleck et
al. 2019, arXiv:1908.04319) the model learns not to go on: −log(1 − p(token)) for every token of a repetition.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dataset import IGNORE

ROWS, LENGTH = 4, 256  # windows of a step and their tokens
SPAN = (3, 32)  # tokens of what is repeated: from a phrase to a sentence
SENTENCE = 8  # a span shorter than this may well occur twice in a row (a name, "he said"): only its third time is unlearnt
LEAST_BEFORE = 16  # tokens before the repetition
SURE = 0.9999  # an unlikelihood is counted as if the probability were no larger, or one token could outweigh all others


def looping_batch(pieces: Sequence[np.ndarray], seed: int, step: int) -> tuple[Tensor, Tensor]:
    """(inputs, targets) int64 [ROWS, LENGTH]: starts of training examples whose last tokens then repeat to the end.

    Targets are the tokens of the repetitions, IGNORE elsewhere. The first token of the first is no target: nothing is
    repeated yet.
    """
    rng = np.random.default_rng([seed, step])
    rows = np.zeros((ROWS, LENGTH + 1), np.int64)
    repeated = np.zeros((ROWS, LENGTH + 1), bool)
    for row in range(ROWS):
        piece = pieces[rng.integers(len(pieces))]
        text = np.where(piece < 0, ~piece.astype(np.int64), piece)
        before = int(rng.integers(LEAST_BEFORE, LENGTH // 2))
        start = text[: max(SPAN[1], before)]
        span = start[-int(rng.integers(*SPAN)) :]
        copies = np.tile(span, LENGTH // len(span) + 1)
        rows[row] = np.concatenate((start, copies))[: LENGTH + 1]
        repeated[row, len(start) + (1 if len(span) >= SENTENCE else len(span)) :] = True
    targets = np.where(repeated, rows, IGNORE)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(targets[:, 1:])


def unlikelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of −log(1 − p(target)) over the targets that are not IGNORE; logits fp32 [batch, time, vocab]."""
    learnt = targets != IGNORE
    probability = logits.softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0].clamp(max=SURE)
    return -(torch.log1p(-probability) * learnt).sum() / learnt.sum()
