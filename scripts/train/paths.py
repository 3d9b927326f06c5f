"""Where things lie (the repository, the corpora, the work folder of a run), and options that many commands share."""

import argparse
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_CORPORA = REPOSITORY.parent / "shared" / "data"
DEFAULT_WORK = REPOSITORY / ".cache" / "train"
RESULTS = REPOSITORY / "docs" / "results" / "training"


def add_corpora(parser: argparse.ArgumentParser) -> None:
    """Adds --corpora, the folder that holds corpus-sgd, corpus-topical-chat and corpus-fairytaleqa."""
    parser.add_argument("--corpora", type=Path, default=DEFAULT_CORPORA, help="default: ../shared/data beside the repository")


def add_texts(parser: argparse.ArgumentParser) -> None:
    """Adds --corpora and --data."""
    add_corpora(parser)
    parser.add_argument("--data", type=Path, help="JSON lines of chats (see tasks.py) in place of the corpora")


def task_weight(text: str) -> tuple[str, float]:
    """'expansion=0.5' → ('expansion', 0.5)."""
    task, _, times = text.partition("=")
    if not (task and re.fullmatch(r"\d+(\.\d+)?", times)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like expansion=6 or expansion=0.5")
    return task, float(times)


def add_repeat(parser: argparse.ArgumentParser) -> None:
    """Adds --repeat, (task, weight) pairs."""
    text = "weight N of a task's examples, such as 3 or 0.2"
    parser.add_argument("--repeat", type=task_weight, nargs="+", default=[], metavar="TASK=N", help=text)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Adds --threads."""
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: 2)")


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Adds --seed."""
    parser.add_argument("--seed", type=int, default=1, help="the same seed and budget in steps give the same run (default: 1)")


def add_work(parser: argparse.ArgumentParser) -> None:
    """Adds --work, the folder of tokenizer, token files, checkpoints and logs (not committed)."""
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help="default: .cache/train in the repository")
