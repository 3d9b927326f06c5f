"""ROUGE-1 (Lin 2004, aclanthology.org/W04-1013) on lower-case words without stemming, and the recall of content words.

    python scripts/train/rouge.py REFERENCE CANDIDATE        # two text files → one JSON line
"""

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from errors import InputError, run
from words import is_content, words_of


@dataclass(frozen=True)
class Rouge:
    """Shares 0..1; a side without words gives 0."""

    precision: float
    recall: float
    f: float


def counts(text: str, content_only: bool = False) -> Counter[str]:
    """How often each lower-case word stands in the text."""
    return Counter(word.lower() for word in words_of(text) if not content_only or is_content(word))


def share(part: int, whole: int) -> float:
    """part / whole, 0 where whole is 0."""
    return part / whole if whole else 0.0


def rouge_1(reference: str, candidate: str, content_only: bool = False) -> Rouge:
    """ROUGE-1 of a candidate; a word counts as often as the other side has it. `content_only` leaves function words out."""
    wanted, given = counts(reference, content_only), counts(candidate, content_only)
    common = (wanted & given).total()
    precision, recall = share(common, given.total()), share(common, wanted.total())
    return Rouge(precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0)


def content_recall(answer: str, sketch: str) -> float:
    """ROUGE-1 recall of the answer's content words in its sketch; 0..1, 1 where the answer has none."""
    return rouge_1(answer, sketch, content_only=True).recall if counts(answer, content_only=True) else 1.0


def read_text(path: Path) -> str:
    """A UTF-8 file; InputError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path} as UTF-8 text ({error})") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path, help="text file")
    parser.add_argument("candidate", type=Path, help="text file")
    args = parser.parse_args()
    reference, candidate = read_text(args.reference), read_text(args.candidate)
    figures = {**asdict(rouge_1(reference, candidate)), "contentRecall": content_recall(reference, candidate)}
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    run(main)
