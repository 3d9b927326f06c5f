"""Turns an answer into a sketch: the same sentences, key words only, in order (PICE's sketch, made from real answers).

Function words are removed; names, numbers, negations, verbs and other content words remain unchanged and in order. A level
limits each line's length to a share of its sentence. Beyond it the least informative words are removed first, by `rank`, and
the longest among equals. Names, numbers and negations remain at every level. There is one line per sentence of the answer,
without full stops but with question marks. The same text always gives the same sketch, and line i expands to sentence i.
"""

from dataclasses import dataclass

from words import NEGATIONS, WEAK_WORDS, is_content, is_verb, split_sentences, words_of

LEVELS = {1: 0.45, 2: 0.38, 3: 0.32}  # level → share of a sentence's characters that its line may have
KEPT_RANK = 4  # rank of names, numbers and negations, which are never removed
FEWEST_WORDS = 2  # minimum content words of a line, whatever the share allows


@dataclass(frozen=True)
class SketchLine:
    """One sentence of the answer and its line in the sketch."""

    sketch: str
    sentence: str


def is_name(word: str, at_start: bool) -> bool:
    """Capitalised, and not just because a sentence or a quotation starts with it."""
    return word[0].isupper() and not at_start


def rank(word: str, at_start: bool, said_before: bool) -> int:
    """How informative a content word is, 0..4; the lowest are removed first.

    0 weak words and adverbs, 1 words that the answer had before, 2 other content words, 3 verbs,
    4 names, numbers, negations, which stay at every level.
    """
    lower = word.lower()
    if word[0].isdigit() or lower in NEGATIONS or is_name(word, at_start):
        return KEPT_RANK
    if lower in WEAK_WORDS or (lower.endswith("ly") and len(lower) > 4):
        return 0
    if said_before:
        return 1
    return 3 if is_verb(word) else 2


def sketch_sentence(sentence: str, level: int, earlier: set[str]) -> str:
    """The sentence's line; `earlier` has the lower-case content words of earlier sentences."""
    words = words_of(sentence)
    kept: list[tuple[int, str]] = []  # (rank, word)
    for index, word in enumerate(words):
        if is_content(word):
            kept.append((rank(word, index == 0, word.lower() in earlier), word))
    if not kept:  # a sentence of function words only, such as 'It was.': its longest word stands for it
        return max(words, key=len) if words else sentence
    room = LEVELS[level] * len(sentence)
    length = sum(len(word) + 1 for _, word in kept) - 1
    while length > room and len(kept) > FEWEST_WORDS:
        drop = min(range(len(kept)), key=lambda index: (kept[index][0], -len(kept[index][1]), -index))
        if kept[drop][0] == KEPT_RANK:
            break
        length -= len(kept.pop(drop)[1]) + 1
    line = " ".join(word for _, word in kept)
    return f"{line}?" if sentence.rstrip("\"'”’)]").endswith("?") else line


def sketch_lines(answer: str, level: int) -> list[SketchLine]:
    """One line per sentence of the answer, in order. ValueError for a level other than 1, 2 (shorter), 3 (shortest)."""
    if level not in LEVELS:
        raise ValueError(f"sketch level {level}; there are {sorted(LEVELS)}")
    earlier: set[str] = set()
    lines = []
    for sentence in split_sentences(answer):
        lines.append(SketchLine(sketch_sentence(sentence, level, earlier), sentence))
        earlier.update(word.lower() for word in words_of(sentence))
    return lines


def sketch(answer: str, level: int) -> str:
    """The sketch as text, a line per sentence."""
    return "\n".join(line.sketch for line in sketch_lines(answer, level))
