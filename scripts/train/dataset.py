"""Examples of tasks.py in memory, and batches of them.

<work>/tasks.npz has per split and task the examples' token ids end to end (uint16), their lengths (int32) and which tokens are
trained on (bool). In memory a token that is read but not trained on is ~id, a negative number.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from errors import InputError
from files import load_arrays

IGNORE = -100  # target of a padding position and of a token that is not trained on
WIDTH_STEP = 64
TASKS = "tasks.npz"


def load_tokens(work: Path) -> dict[str, np.ndarray]:
    """The arrays of <work>/tasks.npz; InputError if it is missing or damaged."""
    return load_arrays(work / TASKS, "tasks.py")


def load_groups(work: Path, split: str, longest: int) -> dict[str, list[np.ndarray]]:
    """{task: examples} of a split, none longer than `longest` tokens: chats are truncated; generated and long examples are omitted."""
    arrays = load_tokens(work)
    groups: dict[str, list[np.ndarray]] = {}
    for name in sorted(arrays):
        group_split, task, kind = name.split("/")
        if kind != "lengths" or group_split != split:
            continue
        ids, ends = arrays[f"{split}/{task}/ids"], np.cumsum(arrays[name])
        learn = arrays[f"{split}/{task}/learn"]
        whole = task.startswith("long-") or not learn.all()
        marked = ids if learn.all() else np.where(learn, ids.astype(np.int32), ~ids.astype(np.int32))
        for example in np.split(marked, ends[:-1]):
            if len(example) <= longest or not whole:
                pieces = [example[start : start + longest] for start in range(0, len(example), longest)]
                groups.setdefault(task, []).extend(pieces)
    return groups


def load_pieces(work: Path, split: str, longest: int) -> list[np.ndarray]:
    """Examples of a split, see load_groups; InputError if there are none."""
    pieces = [piece for group in load_groups(work, split, longest).values() for piece in group]
    if not pieces:
        raise InputError(f"{work / TASKS} has no {split} examples of at most {longest} tokens; create the file again")
    return pieces


def batches_by_length(pieces: list[np.ndarray], positions: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
    """Batches, in random order, of examples of about one length, as many in each as keep it within `positions`, padding included.

    An example is a row of its own, so that attention never crosses from one to another and no position is of a text cut in two.
    """
    order = sorted(rng.permutation(len(pieces)), key=lambda index: -width_of([pieces[index]]))  # at random within a width
    batches: list[list[np.ndarray]] = []
    for index in order:
        if not batches or (len(batches[-1]) + 1) * width_of(batches[-1][:1]) > positions:
            batches.append([])
        batches[-1].append(pieces[index])
    return [batches[index] for index in rng.permutation(len(batches))]


def width_of(rows: list[np.ndarray]) -> int:
    """Positions of a batch of these examples: those of the longest, whose last token is only a target, up to a multiple of WIDTH_STEP."""
    return -(-max(1, max(map(len, rows)) - 1) // WIDTH_STEP) * WIDTH_STEP


def some_of(pieces: list[np.ndarray], tokens: int) -> list[np.ndarray]:
    """Examples at random, always the same, until they have `tokens` tokens to learn."""
    order = np.random.default_rng(0).permutation(len(pieces))
    before = np.cumsum([0, *(int((pieces[index] >= 0).sum()) for index in order[:-1])])
    return [pieces[index] for index in order[before < tokens]]


def to_batch(windows: list[np.ndarray], context: int, pad: int = 0) -> tuple[Tensor, Tensor]:
    """(inputs, targets) int64 [windows, context] from windows of ≤ context + 1 ids, ~id for those not trained on."""
    inputs = torch.full((len(windows), context), pad, dtype=torch.long)
    targets = torch.full((len(windows), context), IGNORE, dtype=torch.long)
    for row, window in enumerate(windows):
        ids = torch.from_numpy(window.astype(np.int64))
        inputs[row, : len(ids) - 1] = torch.where(ids < 0, ~ids, ids)[:-1]
        targets[row, : len(ids) - 1] = torch.where(ids < 0, IGNORE, ids)[1:]
    return inputs, targets


class Batches:
    """An endless, resumable stream of batches of `batch` · `context` positions; epoch e is ordered by seed (seed, e), so a position
    is two numbers."""

    def __init__(self, pieces: list[np.ndarray], context: int, batch: float, seed: int):
        self.pieces, self.context, self.batch, self.seed = pieces, context, batch, seed
        self.go_to(0, 0)

    def go_to(self, epoch: int, next_batch: int) -> None:
        """Goes on with a batch of an epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        self.batches = batches_by_length(self.pieces, round(self.batch * self.context), rng)
        self.epoch, self.next_batch = epoch, next_batch

    def next(self) -> tuple[Tensor, Tensor]:
        """The next (inputs, targets), int64 [examples, the longest's positions, at most the context]."""
        if self.next_batch == len(self.batches):
            self.go_to(self.epoch + 1, 0)
        rows, self.next_batch = self.batches[self.next_batch], self.next_batch + 1
        return to_batch(rows, min(width_of(rows), self.context))
