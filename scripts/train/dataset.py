"""Tokens on disk and windows in memory.

    python scripts/train/dataset.py [--corpora DIR] [--work DIR]

writes <work>/tokens.npz: per task and split the chats' token ids end to end (uint16) and their lengths (int32).
tasks.py writes <work>/tasks.npz, which has the examples of all tasks and marks the tokens to train on (bool).
In memory a token that is read but not trained on is ~id, a negative number.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from corpus import load_chats
from errors import InputError, run
from files import load_arrays, save_arrays
from paths import add_corpora, add_work
from tokenizer import END_OF_TEXT, load_tokenizer, render

IGNORE = -100  # target of a padding position and of a token that is not trained on
OPEN_BINS = 64
CHATS, TASKS = "tokens.npz", "tasks.npz"
STEPS = {CHATS: "dataset.py", TASKS: "tasks.py"}  # the script that writes each file


def encode_chats(corpora: Path, work: Path) -> dict[str, np.ndarray]:
    """{"<split>/<task>/ids": uint16[tokens], "<split>/<task>/lengths": int32[chats]}; each chat ends in <|endoftext|>."""
    tokenizer = load_tokenizer(work)
    groups: dict[str, list[str]] = {}
    for chat in load_chats(corpora):
        groups.setdefault(f"{chat.split}/{chat.task}", []).append(render(chat.messages) + END_OF_TEXT)
    arrays: dict[str, np.ndarray] = {}
    for group, texts in sorted(groups.items()):
        ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]
        arrays[f"{group}/ids"] = np.concatenate([np.asarray(chat, np.uint16) for chat in ids])
        arrays[f"{group}/lengths"] = np.asarray([len(chat) for chat in ids], np.int32)
    return arrays


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """Adds --tasks as `file`, the name of the token file to train on."""
    wanted = f"use the examples of all modes, of tasks.py ({TASKS}); default: chats only"
    parser.add_argument("--tasks", dest="file", action="store_const", const=TASKS, default=CHATS, help=wanted)


def load_groups(work: Path, split: str, longest: int, file: str = CHATS) -> dict[str, list[np.ndarray]]:
    """{task: examples} of a split, none longer than `longest` tokens: chats are truncated; generated and long examples are omitted."""
    arrays = load_arrays(work / file, STEPS[file])
    groups: dict[str, list[np.ndarray]] = {}
    for name in sorted(arrays):
        group_split, task, kind = name.split("/")
        if kind != "lengths" or group_split != split:
            continue
        ids, ends = arrays[f"{split}/{task}/ids"], np.cumsum(arrays[name])
        learn = arrays.get(f"{split}/{task}/learn", np.ones(len(ids), bool))
        whole = task.startswith("long-") or not learn.all()
        marked = ids if learn.all() else np.where(learn, ids.astype(np.int32), ~ids.astype(np.int32))
        for example in np.split(marked, ends[:-1]):
            if len(example) <= longest or not whole:
                pieces = [example[start : start + longest] for start in range(0, len(example), longest)]
                groups.setdefault(task, []).extend(pieces)
    return groups


def load_pieces(work: Path, split: str, longest: int, file: str = CHATS) -> list[np.ndarray]:
    """Examples of a split, see load_groups; InputError if there are none."""
    pieces = [piece for group in load_groups(work, split, longest, file).values() for piece in group]
    if not pieces:
        raise InputError(f"{work / file} has no {split} examples of at most {longest} tokens; create the file again")
    return pieces


def pack(pieces: list[np.ndarray], window: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Packs pieces in random order, first fit, into windows of at most `window` tokens; a window starts with a chat."""
    bins: list[list[np.ndarray]] = []
    sizes: list[int] = []
    full: list[np.ndarray] = []
    for index in rng.permutation(len(pieces)):
        piece = pieces[index]
        slot = next((slot for slot, size in enumerate(sizes) if size + len(piece) <= window), None)
        if slot is None:
            if len(bins) == OPEN_BINS:
                fullest = int(np.argmax(sizes))
                full.append(np.concatenate(bins.pop(fullest)))
                sizes.pop(fullest)
            bins.append([])
            sizes.append(0)
            slot = len(bins) - 1
        bins[slot].append(piece)
        sizes[slot] += len(piece)
    full.extend(np.concatenate(parts) for parts in bins)
    return [full[index] for index in rng.permutation(len(full))]


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
    """An endless, resumable stream of batches: epoch e is packed with seed (seed, e), so a position is two numbers."""

    def __init__(self, pieces: list[np.ndarray], context: int, batch: int, seed: int, epoch: int = 0, next_window: int = 0):
        self.pieces, self.context, self.batch, self.seed = pieces, context, batch, seed
        self.epoch, self.next_window = epoch, next_window
        self.windows = self._pack()

    def _pack(self) -> list[np.ndarray]:
        return pack(self.pieces, self.context + 1, np.random.default_rng([self.seed, self.epoch]))

    def next(self) -> tuple[Tensor, Tensor]:
        """The next (inputs, targets), int64 [batch, context]."""
        if self.next_window + self.batch > len(self.windows):
            self.epoch, self.next_window = self.epoch + 1, 0
            self.windows = self._pack()
        start, self.next_window = self.next_window, self.next_window + self.batch
        return to_batch(self.windows[start : self.next_window], self.context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpora(parser)
    add_work(parser)
    args = parser.parse_args()
    arrays = encode_chats(args.corpora, args.work)
    save_arrays(args.work / CHATS, arrays)
    print(json.dumps({name.removesuffix("/ids"): len(ids) for name, ids in arrays.items() if name.endswith("/ids")}))


if __name__ == "__main__":
    run(main)
