"""Measures a model of <work> on held-out foresight, sketch and expansion, as it will be asked: greedy, one request at a time.

    python scripts/train/evaluate_tasks.py --name slm-deep [--count 60] [--out FILE]

Foresight: |foreseen − true| / true, mean over the answers; a reply without a number counts as 1. Sketch: its tokens over
those of the real answer, and the share of the answer's content words that it has, for the real answer and for the
model's own. Expansion: ROUGE-1 F against the real sentence, the line coming from a sketch by sketch.py. Beside each
figure stands what needs no model: the best constant length, the sketch by sketch.py, the line itself.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice, zip_longest
from pathlib import Path

import torch

from corpus import Message, hash_percent, load_chats
from encode import Encoder, own_encoder
from errors import InputError, run
from evaluate import DEFAULT_RESULT, answer_all
from export import load_llm_checkpoint, write_json
from model import Llama
from paths import add_corpora, add_work
from rouge import content_recall, rouge_1
from sketch import LEVELS, SketchLine, sketch, sketch_lines
from tasks import EXPAND, FORESIGHT, LENGTHS, SKETCH, Turn, turns_of, worth_a_sketch
from tokenizer import END_OF_TEXT, IM_END, render

EXPANDED_LEVEL = 2
Request = Sequence[Message]


class Asker:
    """Greedy replies of a model as text."""

    def __init__(self, model: Llama, encoder: Encoder, max_new: int):
        self.model, self.encoder, self.max_new = model, encoder, max_new
        self.stop = {encoder.tokenizer.token_to_id(IM_END), encoder.tokenizer.token_to_id(END_OF_TEXT)}

    def ids(self, request: Request) -> list[int]:
        """A request as the model reads it."""
        return self.encoder.tokenizer.encode(render(list(request), True), add_special_tokens=False).ids

    def fits(self, request: Request) -> bool:
        """Whether request and reply fit the model's context."""
        return len(self.ids(request)) + self.max_new <= self.model.config.max_position_embeddings

    def ask(self, requests: Sequence[Request]) -> list[str]:
        """The replies, special tokens left out."""
        replies = answer_all(self.model, [self.ids(request) for request in requests], self.max_new, self.stop)
        return [self.encoder.tokenizer.decode(reply, skip_special_tokens=True).strip() for reply in replies]


def mixed(turns: Iterable[Turn]) -> list[Turn]:
    """The turns in an order by hash, one of each source after the other, so that any first few are a fair sample."""
    by_source: dict[str, list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: hashlib.sha256(turn.id.encode()).digest()):
        by_source.setdefault(turn.source, []).append(turn)
    return [turn for row in zip_longest(*by_source.values()) for turn in row if turn]


def expansion_request(turn: Turn) -> tuple[Request, SketchLine]:
    """Asks for one line, chosen by hash, of the answer's sketch."""
    lines = sketch_lines(turn.answer, EXPANDED_LEVEL)
    line = lines[hash_percent(f"line/{turn.id}") % len(lines)]
    return turn.ask(EXPAND.format(sketch="\n".join(each.sketch for each in lines), line=line.sketch)), line


def mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3)


def length_error(foreseen: int, true: int) -> float:
    """|foreseen − true| / true."""
    return abs(foreseen - true) / true


def foresight_figures(asker: Asker, turns: Sequence[Turn]) -> dict[str, float]:
    """Mean relative error of the foreseen lengths."""
    true = [max(1, asker.encoder.count(turn.answer)) for turn in turns]
    found = [re.match(r"\d+", reply) for reply in asker.ask([turn.ask(FORESIGHT) for turn in turns])]
    errors = [length_error(int(number[0]), length) if number else 1.0 for number, length in zip(found, true, strict=True)]
    constant = min(mean([length_error(guess, length) for length in true]) for guess in LENGTHS)
    return {"answers": len(turns), "error": mean(errors), "errorOfBestConstant": constant}


def sketch_figures(asker: Asker, turns: Sequence[Turn], level: int) -> dict[str, float]:
    """Length and content recall of the model's sketches and of those made by sketch.py."""
    count = asker.encoder.count
    own, made = asker.ask([turn.query for turn in turns]), [sketch(turn.answer, level) for turn in turns]
    written = asker.ask([turn.ask(SKETCH.format(level=level)) for turn in turns])
    tokens = sum(count(turn.answer) for turn in turns)
    return {
        "answers": len(turns),
        "shareOfTokens": round(sum(map(count, written)) / tokens, 3),
        "contentRecall": mean([content_recall(turn.answer, text) for turn, text in zip(turns, written, strict=True)]),
        "contentRecallOfOwnAnswer": mean([content_recall(answer, text) for answer, text in zip(own, written, strict=True)]),
        "shareOfTokensByProgram": round(sum(map(count, made)) / tokens, 3),
        "contentRecallByProgram": mean([content_recall(turn.answer, text) for turn, text in zip(turns, made, strict=True)]),
    }


def expansion_figures(asker: Asker, turns: Sequence[Turn]) -> dict[str, float]:
    """ROUGE-1 F of the written sentences and of the bare lines."""
    asked = [expansion_request(turn) for turn in turns]
    written = asker.ask([request for request, _ in asked])
    return {
        "sentences": len(turns),
        "rougeF": mean([rouge_1(line.sentence, text).f for (_, line), text in zip(asked, written, strict=True)]),
        "rougeFOfLine": mean([rouge_1(line.sentence, line.sketch).f for _, line in asked]),
    }


def evaluate(asker: Asker, turns: Sequence[Turn], count: int) -> dict[str, dict]:
    """All figures, each over at most `count` answers whose longest request fits; InputError if none does."""
    fitting = list(islice((turn for turn in turns if asker.fits(turn.ask(FORESIGHT))), count))
    worthy = (turn for turn in turns if worth_a_sketch(turn.answer))
    sketched = list(islice((turn for turn in worthy if asker.fits(expansion_request(turn)[0])), count))
    if not fitting or not sketched:
        raise InputError("no held-out answer with its request fits the model's context; lower --max-new")
    return {
        "foresight": foresight_figures(asker, fitting),
        **{f"sketch-{level}": sketch_figures(asker, sketched, level) for level in LEVELS},
        "expansion": expansion_figures(asker, sketched),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpora(parser)
    add_work(parser)
    parser.add_argument("--name", default="llm", help="checkpoint to measure (default: llm)")
    parser.add_argument("--count", type=int, default=60, help="held-out answers per figure, at most (default: 60)")
    parser.add_argument("--max-new", type=int, default=160, help="tokens of a reply, at most (default: 160)")
    parser.add_argument("--out", type=Path, help="default: docs/results/training/tasks-<name>.json")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    asker = Asker(load_llm_checkpoint(args.work, args.name), own_encoder(args.work), args.max_new)
    chats = [chat for chat in load_chats(args.corpora) if chat.split == "val"]
    turns = mixed(turn for chat in chats for turn in turns_of(chat))
    result = evaluate(asker, turns, args.count)
    write_json(args.out or DEFAULT_RESULT.with_name(f"tasks-{args.name}.json"), result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    run(main)
