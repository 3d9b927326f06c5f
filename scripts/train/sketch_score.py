"""PICE's preference for a sketch: `β1 / |r| + β2 · ROUGE-1(ŷ, y)`, and the pairs made from it (PICE §IV-D).

r is a sketch of |r| tokens, ŷ its expansion by a small model, y the full answer; ROUGE-1 is the F measure. A pair is the
best and the worst sketch of one prompt, if their scores differ by at least a margin.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evaluate_tasks import Asker, Request
from tasks import EXPAND, Turn

# Among the sketches of one prompt β1/|r| then differs about half as much as ROUGE-1 does (standard deviations 0.05 and
# 0.12 over 79 prompts). Equal spreads (β1 = 7) make the shorter sketch win nine pairs of ten: a reward of length alone.
BETA_LENGTH, BETA_ROUGE = 3.0, 1.0
MARGIN = 0.05
LONGEST_SENTENCE = 64  # tokens of one line's expansion


@dataclass(frozen=True)
class Weights:
    """β1 and β2."""

    length: float = BETA_LENGTH
    rouge: float = BETA_ROUGE


@dataclass(frozen=True)
class Candidate:
    """A sketch as token ids (the stop token included), its length |r| without it, and ROUGE-1 F of its expansion."""

    ids: list[int]
    tokens: int
    rouge: float

    def to_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Pair:
    """Two sketches of one prompt, all as token ids."""

    prompt: list[int]
    better: list[int]
    worse: list[int]


def score(candidate: Candidate, weights: Weights) -> float:
    """β1 / |r| + β2 · ROUGE-1(ŷ, y). ValueError for an empty sketch, whose score is not defined."""
    if candidate.tokens < 1:
        raise ValueError("an empty sketch has no score")
    return weights.length / candidate.tokens + weights.rouge * candidate.rouge


def make_pair(prompt: list[int], candidates: Sequence[Candidate], weights: Weights, margin: float) -> Pair | None:
    """The best and the worst, or None if no two differ by the margin."""
    if len(candidates) < 2:
        return None
    ranked = sorted(candidates, key=lambda candidate: score(candidate, weights))
    if score(ranked[-1], weights) - score(ranked[0], weights) < margin:
        return None
    return Pair(prompt, ranked[-1].ids, ranked[0].ids)


def spread(prompts: Sequence[Sequence[Candidate]], weights: Weights) -> dict[str, float]:
    """Standard deviation among the sketches of one prompt, rms over the prompts: of each term of the score and of |r|."""
    terms = {
        "lengthTerm": lambda candidate: weights.length / candidate.tokens,
        "rougeTerm": lambda candidate: weights.rouge * candidate.rouge,
        "tokens": lambda candidate: float(candidate.tokens),
    }
    several = [candidates for candidates in prompts if len(candidates) > 1]
    return {
        name: round(float(np.mean([np.var([term(each) for each in candidates], ddof=1) for candidates in several]) ** 0.5), 4)
        for name, term in terms.items()
        if several
    }


class Expander:
    """Writes sketches out, line by line, each line a separate request, as the devices do."""

    def __init__(self, asker: Asker):
        self.asker = asker

    def fits(self, turn: Turn, sketch: str) -> bool:
        """Whether the sketch has a line, and every line's request and sentence fit the small model's context."""
        lines = sketch_lines_of(sketch)
        return bool(lines) and self.asker.fits(request_for(turn, sketch, max(lines, key=self.asker.encoder.count)))

    def expand(self, sketches: Sequence[tuple[Turn, str]]) -> list[str]:
        """The expansions ŷ of sketches that fit, sentences joined by spaces. Equal requests are made once."""
        requests = {
            (turn.id, sketch, line): request_for(turn, sketch, line) for turn, sketch in sketches for line in sketch_lines_of(sketch)
        }
        sentences = dict(zip(requests, self.asker.ask(list(requests.values())), strict=True))
        return [" ".join(sentences[turn.id, sketch, line] for line in sketch_lines_of(sketch)) for turn, sketch in sketches]


def sketch_lines_of(sketch: str) -> list[str]:
    """The lines of a written sketch that hold anything."""
    return [line.strip() for line in sketch.splitlines() if line.strip()]


def request_for(turn: Turn, sketch: str, line: str) -> Request:
    """The request for one line of a sketch."""
    return turn.ask(EXPAND.format(sketch="\n".join(sketch_lines_of(sketch)), line=line))
