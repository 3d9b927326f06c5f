"""Sketch tuning, measured: held-out sketches of the LLM before and after tuning, and a small model's expansions of them.

    python scripts/train/sketch_tuning_report.py               # → docs/results/training/sketch-tuning.json and .png
    python scripts/train/sketch_tuning_report.py --count 20 --out DIR

Over held-out queries whose answer by the LLM is long enough for a sketch, per level, greedy, before and after: tokens, share of the
answer's tokens and recall of its content words as in evaluate_tasks.py (of the corpus's answer, and of the LLM's own),
ROUGE-1 F of the expansion by --expander against both answers, and the score that was tuned for. "change" has the mean
differences over the same queries. Intervals are 95 %, by bootstrap. Held-out perplexity per task before and after shows the
effect on other tasks. A sketch that the small model cannot expand (empty, or too long) has ROUGE-1 F 0.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
from matplotlib import pyplot as plt

from base import fingerprint
from encode import Encoder, own_encoder
from errors import InputError, run
from evaluate import held_out
from evaluate_tasks import Asker, figure, mixed, sketch_against
from export import load_llm_checkpoint, write_json
from files import load_checkpoint
from paths import RESULTS, add_texts, add_threads, add_work
from plot import save
from rouge import rouge_1
from sketch import LEVELS
from sketch_pairs import LONGEST_SKETCH, PAIRS, read_scored, summary
from sketch_reward import REWARD
from sketch_rl import TUNED
from sketch_score import LONGEST_SENTENCE, Candidate, Expander, Weights, score
from tasks import SKETCH, Turn, load_turns, worth_a_sketch

LONGEST_ANSWER = 160
TRIED_PER_ANSWER = 4  # queries answered to find one whose answer can be used
PERPLEXITY_TOKENS = 6144  # per task
EXAMPLES = 6
CHANGES = ("tokens", "rougeFOfOwn", "rougeF", "score")


@dataclass(frozen=True)
class Measured:
    """One model's sketches of the measured queries at one level; all lists in the queries' order."""

    sketches: list[str]
    tokens: list[int]
    rougeF: list[float]
    rougeFOfOwn: list[float]
    score: list[float]


def measured_turns(asker: Asker, turns: Sequence[Turn], count: int) -> tuple[list[Turn], list[str]]:
    """(at most `count` held-out turns, the LLM's own answers to them); InputError if none is long enough for a sketch."""
    worthy = (turn for turn in mixed(turns) if worth_a_sketch(turn.answer) and asker.fits(turn.query))
    tried = list(islice(worthy, TRIED_PER_ANSWER * count))
    pairs = [(turn, own) for turn, own in zip(tried, asker.answers(tried), strict=True) if own and worth_a_sketch(own)][:count]
    if not pairs:
        raise InputError("no held-out answer of the LLM is long enough for a sketch; train it longer or raise --count")
    return [turn for turn, _ in pairs], [own for _, own in pairs]


def measure(asker: Asker, expander: Expander, turns: Sequence[Turn], own: Sequence[str], level: int, weights: Weights) -> Measured:
    """Greedy sketches of the turns, expanded and scored."""
    sketches = asker.ask([turn.ask(SKETCH.format(level=level)) for turn in turns], LONGEST_SKETCH)
    taken = [index for index, turn in enumerate(turns) if expander.fits(turn, sketches[index])]
    expansions = [""] * len(turns)
    for index, text in zip(taken, expander.expand([(turns[index], sketches[index]) for index in taken]), strict=True):
        expansions[index] = text
    tokens = [max(1, asker.encoder.count(text)) for text in sketches]
    of_own = [rouge_1(answer, text).f for answer, text in zip(own, expansions, strict=True)]
    of_real = [rouge_1(turn.answer, text).f for turn, text in zip(turns, expansions, strict=True)]
    scores = [score(Candidate([], length, rouge), weights) for length, rouge in zip(tokens, of_own, strict=True)]
    return Measured(sketches, tokens, of_real, of_own, scores)


def figures(encoder: Encoder, turns: Sequence[Turn], own: Sequence[str], measured: Measured) -> dict:
    """Means with intervals."""
    return {
        **figure("tokens", measured.tokens),
        **sketch_against(encoder.count, [turn.answer for turn in turns], measured.sketches, ""),
        **sketch_against(encoder.count, own, measured.sketches, "OfOwn"),
        **figure("rougeF", measured.rougeF),
        **figure("rougeFOfOwn", measured.rougeFOfOwn),
        **figure("score", measured.score),
    }


def changes(before: Measured, after: Measured) -> dict:
    """Mean differences over the same queries, with intervals."""
    pairs = {name: zip(asdict(after)[name], asdict(before)[name], strict=True) for name in CHANGES}
    return {key: value for name, both in pairs.items() for key, value in figure(name, [new - old for new, old in both]).items()}


def perplexities(work: Path) -> dict[str, dict[str, float]]:
    """{task: {"before", "after"}} on held-out text."""
    both = [held_out(load_llm_checkpoint(work, name), work, PERPLEXITY_TOKENS)[0] for name in ("llm", TUNED)]
    return {task: {"before": both[0][task]["perplexity"], "after": both[1][task]["perplexity"]} for task in both[0] if both[0][task]}


def plot(levels: dict[str, dict], curve: Sequence[dict], path: Path) -> None:
    """Sketch length and ROUGE-1 F per level before and after; reward and KL over the steps."""
    figure_, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for panel, name, label in ((left, "tokens", "tokens of a sketch"), (middle, "rougeFOfOwn", "ROUGE-1 F of the expansion")):
        for shift, when in ((-0.2, "before"), (0.2, "after")):
            rows = [level[when] for level in levels.values()]
            values = [row[name] for row in rows]
            low = [row[name] - row[f"{name}Interval"][0] for row in rows]
            high = [row[f"{name}Interval"][1] - row[name] for row in rows]
            panel.bar([at + shift for at in range(len(rows))], values, 0.38, yerr=[low, high], capsize=3, label=when)
        panel.set(xticks=range(len(levels)), xticklabels=[f"level {level}" for level in levels], ylabel=label)
    left.legend(fontsize=8)
    steps = [point["step"] for point in curve]
    right.plot(steps, [point["reward"] for point in curve], linewidth=0.8, label="reward (standard deviations)")
    right.plot(steps, [point["kl"] for point in curve], linewidth=0.8, label="KL to the LLM (nats per sketch)")
    right.set(xlabel="steps", title="tuning")
    right.legend(fontsize=8)
    save(figure_, path)


def report(work: Path, turns: Sequence[Turn], expander_name: str, count: int) -> tuple[dict, list[dict]]:
    """(all figures, the curve of the tuning)."""
    encoder, scored, tuned = own_encoder(work), read_scored(work / PAIRS), load_checkpoint(work / f"{TUNED}.pt")
    before, after = (Asker(load_llm_checkpoint(work, name), encoder, LONGEST_ANSWER) for name in ("llm", TUNED))
    if tuned["llm"] != fingerprint(before.model):
        raise InputError(f"{work / TUNED}.pt was tuned from another LLM checkpoint; run the three steps again")
    expander = Expander(Asker(load_llm_checkpoint(work, expander_name), encoder, LONGEST_SENTENCE))
    weights = Weights(**scored["weights"])
    chosen, own = measured_turns(before, turns, count)
    levels, examples = {}, []
    for level in sorted(LEVELS):
        old, new = (measure(asker, expander, chosen, own, level, weights) for asker in (before, after))
        both = {"before": figures(encoder, chosen, own, old), "after": figures(encoder, chosen, own, new)}
        levels[str(level)] = {**both, "change": changes(old, new)}
        for turn, answer, was, is_ in list(zip(chosen, own, old.sketches, new.sketches, strict=True))[: EXAMPLES // len(LEVELS)]:
            examples.append({"id": turn.id, "level": level, "answer": answer, "before": was, "after": is_})
    result = {
        "answers": len(chosen),
        "expander": expander_name,
        "weights": {"beta1": weights.length, "beta2": weights.rouge},
        "pairs": summary(scored),
        "rewardModel": load_checkpoint(work / REWARD)["figures"],
        "tuning": {**tuned["settings"], "steps": tuned["step"], "seconds": round(tuned["seconds"])},
        "levels": levels,
        "heldOutPerplexity": perplexities(work),
        "examples": examples,
    }
    return result, tuned["curve"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_texts(parser)
    add_work(parser)
    parser.add_argument("--expander", default="slm-deep", help="checkpoint that expands sketches (default: slm-deep)")
    parser.add_argument("--count", type=int, default=60, help="held-out queries, at most (default: 60)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder (default: docs/results/training)")
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    turns = [turn for turn in load_turns(args.corpora, args.data) if turn.split == "val"]
    result, curve = report(args.work, turns, args.expander, args.count)
    write_json(args.out / "sketch-tuning.json", {**result, "curve": curve})
    plot(result["levels"], curve, args.out / "sketch-tuning.png")
    shown = {level: {when: {name: rows[when][name] for name in CHANGES} for when in rows} for level, rows in result["levels"].items()}
    print(json.dumps({"answers": result["answers"], "levels": shown, "heldOutPerplexity": result["heldOutPerplexity"]}, indent=1))


if __name__ == "__main__":
    run(main)
