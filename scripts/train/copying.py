"""Training windows for learning to copy: shuffled tokens of training text that are repeated later.

To expand a sketch, answer from a text or draft repeated text, a model must find an earlier occurrence and continue from it
(induction heads, Olsson et al. 2022, arXiv:2209.11895). A few million tokens of text hardly teach this. A model learns it
quickly where only the earlier occurrence determines the next token.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dataset import IGNORE

SPAN = (4, 48)  # tokens of a copied span
GAP = (0, 64)  # tokens between a span and its copy


def copying_window(pieces: Sequence[np.ndarray], context: int, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """(inputs, targets) int64 [1, context]: spans, gaps and copies in turn; the loss covers the copies except their first tokens."""
    rng = np.random.default_rng([seed, step])
    source = [pieces[index] for index in rng.integers(len(pieces), size=8)]
    tokens = np.concatenate([np.where(piece < 0, ~piece.astype(np.int64), piece) for piece in source])
    ids, learnt = [], []
    size = 0
    while size <= context:
        span, gap = rng.choice(tokens, rng.integers(*SPAN)), rng.choice(tokens, rng.integers(*GAP))
        ids += [span, gap, span]
        learnt += [np.zeros(len(span) + len(gap) + 1, bool), np.ones(len(span) - 1, bool)]
        size += 2 * len(span) + len(gap)
    row, marks = np.concatenate(ids)[: context + 1], np.concatenate(learnt)[: context + 1]
    targets = np.where(marks, row, IGNORE)
    return torch.from_numpy(row[None, :-1]), torch.from_numpy(targets[None, 1:])
