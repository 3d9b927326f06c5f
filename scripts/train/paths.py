"""Where things lie: the repository, the corpora and the work directory of a training run."""

import argparse
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_CORPORA = REPOSITORY.parent / "shared" / "data"
DEFAULT_WORK = REPOSITORY / ".cache" / "train"
RESULTS = REPOSITORY / "docs" / "results" / "training"


def add_corpora(parser: argparse.ArgumentParser) -> None:
    """Adds --corpora, the folder that holds corpus-sgd, corpus-topical-chat and corpus-fairytaleqa."""
    parser.add_argument("--corpora", type=Path, default=DEFAULT_CORPORA, help="default: ../shared/data beside the repository")


def add_work(parser: argparse.ArgumentParser) -> None:
    """Adds --work, the folder of tokenizer, token files, checkpoints and logs (not committed)."""
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help="default: .cache/train in the repository")
