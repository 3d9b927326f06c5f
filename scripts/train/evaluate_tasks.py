"""Measures a model of <work> on held-out foresight, sketch and expansion, as in use: greedy, one request at a time.

    python scripts/train/evaluate_tasks.py --name slm-deep [--count 60] [--out FILE]

The figures are of the guides and tales of long_form.py, combinations of slots that no model has seen; under `corpora` are the
same figures of the three corpora.

With l the length of the answer in tokens and e = |predicted length − l|:

- foresight: the predicted length is the median of the model's distribution over the numbers it was trained on, which minimises the
  expected |error|. `foresight-written` uses the number that the model writes, greedy (0 if it writes none). `error` = mean(e) /
  mean(l), and `relativeError` = mean(e / l), both against the corpus's answer and against the model's own (`…OfOwn`), with which
  PICE plans. The best constant guess for these answers is the baseline.
- sketch: `shareOfTokens` = the sketches' tokens over the answers', and `contentRecall`, the mean share of an answer's content words
  that its sketch has (ROUGE-1 recall), for the corpus's answers and the model's own; sketch.py's sketches are the baseline.
- expansion: ROUGE-1 F of the written sentence against the real one, with lines from sketch.py; the bare line is
  the baseline.

A model's own answer is included if it ends within --max-new tokens and does not repeat itself; `ownAnswers` is their number.
Every figure has a 95 % bootstrap interval over answers, `<figure>Interval`.
"""

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from corpus import Chat, Message, hash_percent, load_chats
from encode import Encoder, own_encoder
from errors import InputError, run
from evaluate import answer_all, is_finished
from export import load_llm_checkpoint, write_json
from heldout_prompts import by_hash, in_turn
from long_form import long_form_chats
from model import Llama
from paths import RESULTS, add_corpora, add_threads, add_work
from rouge import content_recall, rouge_1
from sketch import LEVELS, SketchLine, sketch, sketch_lines
from tasks import EXPAND, FORESIGHT, LENGTHS, SKETCH, Turn, turns_of, worth_a_sketch
from tokenizer import stop_tokens

LONGEST_LEVEL = 1  # whose sketches are the longest
NUMBER_TOKENS = 8  # a foreseen length and its end
SENTENCE_TOKENS = 96  # of an expansion
RESAMPLES = 2000
Request = Sequence[Message]


class Asker:
    """Greedy replies of a model as text."""

    def __init__(self, model: Llama, encoder: Encoder, max_new: int):
        self.model, self.encoder, self.max_new = model, encoder, max_new
        self.stop = stop_tokens(encoder.tokenizer)
        self.own: dict[str, str | None] = {}  # answers so far by turn

    def ids(self, request: Request) -> list[int]:
        """A request as the model reads it."""
        return self.encoder.prompt(request)

    def fits(self, request: Request, max_new: int | None = None) -> bool:
        """Whether request and reply fit the model's context."""
        return len(self.ids(request)) + (max_new or self.max_new) <= self.model.config.max_position_embeddings

    def replies(self, requests: Sequence[Request], max_new: int) -> list[list[int]]:
        """The replies' tokens, the stop token included where one came."""
        return answer_all(self.model, [self.ids(request) for request in requests], max_new, self.stop)

    def text(self, reply: list[int]) -> str:
        """A reply without special tokens."""
        return self.encoder.tokenizer.decode(reply, skip_special_tokens=True).strip()

    def ask(self, requests: Sequence[Request], max_new: int | None = None) -> list[str]:
        """The replies as text."""
        return [self.text(reply) for reply in self.replies(requests, max_new or self.max_new)]

    @torch.no_grad()
    def foresee(self, requests: Sequence[Request]) -> list[int]:
        """The median of the model's distribution over LENGTHS, which has the least expected error."""
        numbers = [self.encoder.tokenizer.encode(str(length), add_special_tokens=False).ids for length in LENGTHS]
        endings = [[*number, stop] for number in numbers for stop in sorted(self.stop)]
        longest = max(map(len, endings))
        found = []
        for ids in map(self.ids, requests):
            rows = torch.tensor([ids + ending + [0] * (longest - len(ending)) for ending in endings])
            log_chances = self.model(rows)[:, len(ids) - 1 :].log_softmax(-1)
            scores = [sum(log_chances[row, at, token] for at, token in enumerate(ending)) for row, ending in enumerate(endings)]
            chances = torch.stack(scores).softmax(0).view(len(LENGTHS), -1).sum(1).cumsum(0)
            found.append(LENGTHS[min(int((chances < 0.5).sum()), len(LENGTHS) - 1)])
        return found

    def answers(self, turns: Sequence[Turn]) -> list[str | None]:
        """The model's own answers; None for one that has no end or repeats itself."""
        asked = [turn for turn in turns if turn.id not in self.own]
        for turn, reply in zip(asked, self.replies([turn.query for turn in asked], self.max_new), strict=True):
            self.own[turn.id] = self.text(reply) if is_finished(reply, self.stop) else None
        return [self.own[turn.id] for turn in turns]


def mixed(turns: Iterable[Turn]) -> list[Turn]:
    """The turns in an order by hash, one of each source after the other, so that any first few are a fair sample."""
    by_source: dict[str, list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: by_hash(turn.id)):
        by_source.setdefault(turn.source, []).append(turn)
    return in_turn(by_source.values())


def expansion_request(turn: Turn, level: int) -> tuple[Request, SketchLine]:
    """Asks for one line of the answer's sketch: of every level's the same, chosen by hash."""
    lines = sketch_lines(turn.answer, level)
    line = lines[hash_percent(f"line/{turn.id}") % len(lines)]
    return turn.ask(EXPAND.format(sketch="\n".join(each.sketch for each in lines), line=line.sketch)), line


def figure(name: str, parts: Sequence[float], wholes: Sequence[float] | None = None) -> dict[str, float | list[float]]:
    """{name: Σ parts / Σ wholes, name + "Interval": [low, high]}, 95 % by bootstrap; a plain mean without wholes; {} of nothing."""
    if not len(parts):
        return {}
    part, whole = np.asarray(parts, float), np.ones(len(parts)) if wholes is None else np.asarray(wholes, float)
    drawn = np.random.default_rng(0).integers(0, len(part), (RESAMPLES, len(part)))
    interval = np.percentile(part[drawn].sum(1) / whole[drawn].sum(1), (2.5, 97.5))
    return {name: round(part.sum() / whole.sum(), 3), f"{name}Interval": interval.round(3).tolist()}


def foresight_errors(foreseen: Sequence[int], true: Sequence[int], suffix: str) -> dict[str, float | list[float]]:
    """Both errors of the predicted lengths, and those of the best constant, which is one of the lengths; {} of no lengths."""
    if not true:
        return {}
    off = [abs(guess - length) for guess, length in zip(foreseen, true, strict=True)]
    off_by_constant = [[abs(guess - length) for length in true] for guess in sorted(set(true))]
    relative = [error / length for error, length in zip(off, true, strict=True)]
    constant = min(np.mean(np.divide(row, true)) for row in off_by_constant)
    return {
        **figure(f"error{suffix}", off, true),
        f"error{suffix}OfBestConstant": round(min(map(sum, off_by_constant)) / sum(true), 3),
        **figure(f"relativeError{suffix}", relative),
        f"relativeError{suffix}OfBestConstant": round(float(constant), 3),
    }


def written_lengths(asker: Asker, requests: Sequence[Request]) -> list[int]:
    """The numbers that the model writes, greedy; 0 if it writes none."""
    found = [re.match(r"\d+", reply) for reply in asker.ask(requests, NUMBER_TOKENS)]
    return [int(number[0]) if number else 0 for number in found]


def foresight_figures(
    asker: Asker, turns: Sequence[Turn], own: Sequence[str | None], foreseen: Sequence[int]
) -> dict[str, float | list[float]]:
    """Errors of the predicted lengths, against the corpus's answers and the model's own."""
    count = asker.encoder.count
    pairs = [(guess, max(1, count(answer))) for guess, answer in zip(foreseen, own, strict=True) if answer is not None]
    return {
        "answers": len(turns),
        "ownAnswers": len(pairs),
        **foresight_errors(foreseen, [max(1, count(turn.answer)) for turn in turns], ""),
        **foresight_errors([guess for guess, _ in pairs], [length for _, length in pairs], "OfOwn"),
    }


def sketch_against(count, answers: Sequence[str], sketches: Sequence[str], suffix: str) -> dict[str, float | list[float]]:
    """Share of tokens and content recall of sketches of given answers."""
    recalls = [content_recall(answer, text) for answer, text in zip(answers, sketches, strict=True)]
    return {
        **figure(f"shareOfTokens{suffix}", list(map(count, sketches)), list(map(count, answers))),
        **figure(f"contentRecall{suffix}", recalls),
    }


def sketch_figures(asker: Asker, turns: Sequence[Turn], own: Sequence[str | None], level: int) -> dict[str, float | list[float]]:
    """Length and content recall of the model's sketches, of the corpus's answers and its own, and of sketch.py's."""
    count, real = asker.encoder.count, [turn.answer for turn in turns]
    written = asker.ask([turn.ask(SKETCH.format(level=level)) for turn in turns])
    pairs = [(answer, text) for answer, text in zip(own, written, strict=True) if answer]
    return {
        "answers": len(turns),
        "ownAnswers": len(pairs),
        **sketch_against(count, real, written, ""),
        **sketch_against(count, [answer for answer, _ in pairs], [text for _, text in pairs], "OfOwn"),
        **sketch_against(count, real, [sketch(answer, level) for answer in real], "ByProgram"),
    }


def expansion_figures(asker: Asker, turns: Sequence[Turn], level: int) -> dict[str, float | list[float]]:
    """ROUGE-1 F of the written sentences and of the bare lines."""
    asked = [expansion_request(turn, level) for turn in turns]
    written = asker.ask([request for request, _ in asked], SENTENCE_TOKENS)
    return {
        "sentences": len(turns),
        **figure("rougeF", [rouge_1(line.sentence, text).f for (_, line), text in zip(asked, written, strict=True)]),
        **figure("rougeFOfLine", [rouge_1(line.sentence, line.sketch).f for _, line in asked]),
    }


def evaluate(asker: Asker, turns: Sequence[Turn], count: int) -> dict[str, dict]:
    """All figures, each over at most `count` answers whose longest request fits; InputError if none does."""
    open_turns = [turn for turn in turns if asker.fits(turn.ask(FORESIGHT), asker.max_new)]
    worthy = (turn for turn in open_turns if worth_a_sketch(turn.answer))
    sketched = list(islice((turn for turn in worthy if asker.fits(expansion_request(turn, LONGEST_LEVEL)[0], SENTENCE_TOKENS)), count))
    fitting = open_turns[:count]
    if not fitting or not sketched:
        raise InputError("no held-out answer with its request fits the model's context; lower --max-new")
    own, own_fitting = asker.answers(sketched), asker.answers(fitting)
    asked = [turn.ask(FORESIGHT) for turn in fitting]
    return {
        "foresight": foresight_figures(asker, fitting, own_fitting, asker.foresee(asked)),
        "foresight-written": foresight_figures(asker, fitting, own_fitting, written_lengths(asker, asked)),
        **{f"sketch-{level}": sketch_figures(asker, sketched, own, level) for level in LEVELS},
        **{f"expansion-{level}": expansion_figures(asker, sketched, level) for level in LEVELS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpora(parser)
    add_work(parser)
    parser.add_argument("--name", default="llm", help="checkpoint to measure (default: llm)")
    parser.add_argument("--count", type=int, default=60, help="maximum number of held-out answers per figure (default: 60)")
    parser.add_argument("--max-new", type=int, default=440, help="maximum number of tokens of a guide or tale (default: 440)")
    parser.add_argument("--max-new-corpora", type=int, default=160, help="the same for the corpora; 0 leaves them out (default: 160)")
    parser.add_argument("--out", type=Path, help="default: docs/results/training/tasks-<name>.json")
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, encoder = load_llm_checkpoint(args.work, args.name), own_encoder(args.work)

    def figures(chats: Iterable[Chat], max_new: int) -> dict[str, dict]:
        turns = mixed(turn for chat in chats if chat.split == "val" for turn in turns_of(chat))
        return evaluate(Asker(model, encoder, max_new), turns, args.count)

    result = {"name": args.name, "longestReply": args.max_new, **figures(long_form_chats(), args.max_new)}
    if args.max_new_corpora:
        result["corpora"] = {"longestReply": args.max_new_corpora, **figures(load_chats(args.corpora), args.max_new_corpora)}
    write_json(args.out or RESULTS / f"tasks-{args.name}.json", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    run(main)
