"""ROUGE-1 (Lin 2004, aclanthology.org/W04-1013) on lower-case words without stemming, and the recall of content words."""

from collections import Counter
from dataclasses import dataclass

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
