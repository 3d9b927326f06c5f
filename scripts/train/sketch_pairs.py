"""Sketch tuning, step 1: sketches by the LLM, expanded by a small model and scored, as preference pairs.

    python scripts/train/sketch_pairs.py --minutes 4                    # → <work>/sketch-pairs.json
    python scripts/train/sketch_pairs.py --minutes 0 --beta1 8          # score the same sketches with other weights
    python scripts/train/sketch_pairs.py --data chats.jsonl --work DIR  # from a user's own chats, as in tasks.py --data

PICE's supervised stage is the LLM's own training (train_llm.py --tasks): the policy π is <work>/llm.pt. Its full answers
y are those of own_answers.py (<work>/own-answers.json), where they are long enough. π samples several sketches of each at
one level, and --expander expands each sketch line by line to ŷ. Score and pairs: sketch_score.py. Unlike in
the paper, π sketches from the query alone, as in use. The paper does not specify β1 and β2; the output has the "spread" of both
terms among the sketches of one prompt. Saved after every few batches; run it again to resume.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from corpus import hash_percent
from base import fingerprint
from encode import own_encoder
from errors import InputError, run
from evaluate import is_finished
from evaluate_tasks import Asker
from export import load_llm_checkpoint
from files import write_atomically
from generate import generate, same_length_batches
from own_answers import load_own_answers
from paths import add_seed, add_texts, add_threads, add_work
from rouge import rouge_1
from sketch import LEVELS
from sketch_score import (
    BETA_LENGTH,
    BETA_ROUGE,
    LONGEST_SENTENCE,
    MARGIN,
    Candidate,
    Expander,
    Pair,
    Weights,
    make_pair,
    spread,
)
from tasks import SKETCH, Turn, load_turns, worth_a_sketch

PAIRS = "sketch-pairs.json"
PROMPTS_PER_BATCH, BATCHES_PER_SAVE = 8, 4  # prompts of one length; more batches at once fill the expander's better
LONGEST_SKETCH = 80  # tokens
LONGEST_PROMPT = 224  # tokens of query and instruction: work grows with them
TEMPERATURE = 0.7  # as the model is served by default; sketch_rl.py tunes the policy at the same one


@dataclass(frozen=True)
class SketchTask:
    """A training query at one level: the ids that ask for its sketch, and the LLM's full answer y."""

    turn: Turn
    prompt: list[int]
    answer: str


def level_of(turn: Turn) -> int:
    """The level at which a training turn is sketched; all are equally frequent."""
    return sorted(LEVELS)[hash_percent(f"tuning/{turn.id}") % len(LEVELS)]


def task_batches(policy: Asker, turns: Iterable[Turn], answers: Mapping[str, str], seed: int, batch: int) -> list[list[SketchTask]]:
    """The training turns whose own answer is long enough for a sketch, in batches of one prompt length, in random order."""
    tasks = [
        SketchTask(turn, policy.ids(turn.ask(SKETCH.format(level=level_of(turn)))), answers[turn.id])
        for turn in turns
        if turn.split == "train" and worth_a_sketch(answers.get(turn.id, ""))
    ]
    tasks = [task for task in tasks if len(task.prompt) <= LONGEST_PROMPT]
    if not tasks:
        raise InputError("no training answer of the LLM is long enough for a sketch (two sentences, 20 words); run own_answers.py for longer")
    batches = same_length_batches([task.prompt for task in tasks], batch)
    return [[tasks[index] for index in batches[at]] for at in np.random.default_rng(seed).permutation(len(batches))]


def ended(policy: Asker, ids: list[int]) -> bool:
    """Whether a reply is not empty, has an end and does not repeat itself."""
    return len(ids) > 1 and is_finished(ids, policy.stop)


def sample_sketches(policy: Asker, prompts: Sequence[list[int]], samples: int, generator: torch.Generator) -> list[list[list[int]]]:
    """`samples` sketches (ids) of each prompt; all prompts have one length."""
    rows = [prompt for prompt in prompts for _ in range(samples)]
    written = generate(policy.model, rows, LONGEST_SKETCH, policy.stop, temperature=TEMPERATURE, generator=generator)
    return [written[at : at + samples] for at in range(0, len(written), samples)]


def scored_sketches(
    policy: Asker, expander: Expander, batches: Sequence[Sequence[SketchTask]], samples: int, seed: int
) -> list[dict]:
    """[{"prompt": ids, "candidates": [Candidate as dict]}] of every task; equal, unusable and overlong sketches are omitted."""
    generator = torch.Generator().manual_seed(seed)
    usable: list[tuple[int, SketchTask, list[int]]] = []
    tasks = [task for batch in batches for task in batch]
    sampled = [sketches for batch in batches for sketches in sample_sketches(policy, [t.prompt for t in batch], samples, generator)]
    for row, (task, sketches) in enumerate(zip(tasks, sampled, strict=True)):
        different = {tuple(ids): ids for ids in sketches}.values()
        usable += [
            (row, task, ids) for ids in different if ended(policy, ids) and expander.fits(task.turn, policy.text(ids))
        ]
    expansions = expander.expand([(task.turn, policy.text(ids)) for _, task, ids in usable])
    scored: list[dict] = [{"prompt": task.prompt, "candidates": []} for task in tasks]
    for (row, task, ids), expansion in zip(usable, expansions, strict=True):
        candidate = Candidate(ids, len(ids) - 1, rouge_1(task.answer, expansion).f)
        scored[row]["candidates"].append(candidate.to_dict())
    return scored


def read_scored(path: Path) -> dict:
    """The contents of a pairs file; InputError if it is missing or damaged."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}); run sketch_pairs.py, or delete the file to recreate it") from error


def candidates_in(state: dict) -> Iterator[tuple[list[int], list[Candidate]]]:
    """(prompt ids, candidates) of every prompt of a pairs file."""
    for scored in state["prompts"]:
        yield scored["prompt"], [Candidate(**candidate) for candidate in scored["candidates"]]


def pairs_in(state: dict) -> list[Pair]:
    """The pairs of a pairs file, by the weights and margin that stand in it."""
    weights = Weights(**state["weights"])
    made = (make_pair(prompt, candidates, weights, state["margin"]) for prompt, candidates in candidates_in(state))
    return [pair for pair in made if pair]


def summary(state: dict) -> dict:
    """Counts, mean length and ROUGE, and how far the two terms differ among the sketches of a prompt."""
    scored = [candidates for _, candidates in candidates_in(state)]
    every = [candidate for candidates in scored for candidate in candidates]
    pairs = pairs_in(state)
    return {
        "prompts": len(scored),
        "sketches": len(every),
        "pairs": len(pairs),
        "meanTokens": round(float(np.mean([each.tokens for each in every])), 2) if every else None,
        "meanRougeF": round(float(np.mean([each.rouge for each in every])), 4) if every else None,
        "betterIsShorter": round(float(np.mean([len(pair.better) < len(pair.worse) for pair in pairs])), 3) if pairs else None,
        "spread": spread(scored, Weights(**state["weights"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_texts(parser)
    add_work(parser)
    parser.add_argument("--expander", default="slm-deep", help="checkpoint that expands sketches (default: slm-deep)")
    parser.add_argument("--minutes", type=float, default=4, help="run time of this call in minutes; 0 only rescores (default: 4)")
    parser.add_argument("--batches", type=int, default=1_000_000, help="total number of batches (default: no limit)")
    parser.add_argument("--samples", type=int, default=6, help="sketches per prompt (default: 6)")
    parser.add_argument("--beta1", type=float, default=BETA_LENGTH, help=f"weight of 1/|r| (default: {BETA_LENGTH})")
    parser.add_argument("--beta2", type=float, default=BETA_ROUGE, help=f"weight of ROUGE-1 (default: {BETA_ROUGE})")
    parser.add_argument("--margin", type=float, default=MARGIN, help=f"minimum score difference of a pair (default: {MARGIN})")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    encoder = own_encoder(args.work)
    policy = Asker(load_llm_checkpoint(args.work), encoder, LONGEST_SKETCH)
    expander = Expander(Asker(load_llm_checkpoint(args.work, args.expander), encoder, LONGEST_SENTENCE))
    answers, path = load_own_answers(args.work), args.work / PAIRS
    made_by = {
        "llm": fingerprint(policy.model),
        "expander": fingerprint(expander.asker.model),
        "answers": hashlib.sha256(json.dumps(answers).encode()).hexdigest()[:16],
    }
    state = read_scored(path) if path.exists() else {**made_by, "batches": 0, "prompts": []}
    if any(state[name] != value for name, value in made_by.items()):
        raise InputError(f"{path} was created with other models or answers; delete it to restart")
    state |= {"weights": {"length": args.beta1, "rouge": args.beta2}, "margin": args.margin}
    batches = task_batches(policy, load_turns(args.corpora, args.data), answers, args.seed, PROMPTS_PER_BATCH)[: args.batches]
    started = time.monotonic()
    while state["batches"] < len(batches) and time.monotonic() - started < args.minutes * 60:
        group = batches[state["batches"] : state["batches"] + BATCHES_PER_SAVE]
        seed = args.seed * 1_000_003 + state["batches"]
        state["prompts"] += scored_sketches(policy, expander, group, args.samples, seed)
        state["batches"] += len(group)
        write_atomically(path, json.dumps(state).encode())
        print(json.dumps({"seconds": round(time.monotonic() - started), **summary(state)}), flush=True)
    write_atomically(path, json.dumps(state).encode())
    print(json.dumps(summary(state)))
    if not pairs_in(state):
        raise InputError("no two sketches of a prompt differ by the margin; raise --minutes or --samples, or lower --margin")


if __name__ == "__main__":
    run(main)
