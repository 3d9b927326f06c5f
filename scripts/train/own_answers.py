"""Creates foresight and sketch examples from a model's own answers, because PICE plans with the length and the content of
this model's answers, not of the corpus's.

    python scripts/train/own_answers.py --name llm-512 --minutes 5

Generates greedy answers to training turns and writes <work>/tasks-own.npz: the examples of tasks.npz with foresight and
sketches from the model's own answers, each with weight --weight. Answers that repeat themselves are omitted. Resumes from <work>/own-answers.json.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from dataset import OWN_TASKS, TASKS
from encode import Encoder, own_encoder
from errors import InputError, run
from evaluate import is_finished
from export import load_llm_checkpoint
from files import load_arrays, read_json, save_arrays, write_atomically
from generate import generate, same_length_batches
from model import Llama
from paths import add_seed, add_texts, add_threads, add_work
from sketch import LEVELS, sketch
from tasks import FORESIGHT, SKETCH, Example, Turn, answer, encode_examples, foreseen, load_turns, worth_a_sketch
from tokenizer import stop_tokens

OWN_ANSWERS = "own-answers.json"
REPLACED = ("foresight", *(f"sketch-{level}" for level in LEVELS))
LONGEST_ANSWER = 160
SAVE_EVERY_S = 60.0


def own_examples(turn: Turn, text: str, encoder: Encoder) -> list[Example]:
    """The foresight and sketch examples of a turn that the model answered with `text`."""
    length = str(foreseen(encoder.count(text)))
    made = [turn.example("foresight", (*turn.ask(FORESIGHT), answer(length)))]
    if worth_a_sketch(text):
        for level in LEVELS:
            written = answer(sketch(text, level))
            made.append(turn.example(f"sketch-{level}", (*turn.ask(SKETCH.format(level=level)), written)))
    return made


def sample(turns: Sequence[Turn], per_source: int, seed: int) -> list[Turn]:
    """At most so many turns of every source, and as many again whose real answer is long enough for a sketch, chosen at random.

    Dialogues would crowd out the rest, and most of their answers are a single short sentence.
    """
    chosen: list[Turn] = []
    taken: dict[tuple[str, bool], int] = {}
    for index in np.random.default_rng(seed).permutation(len(turns)):
        turn = turns[index]
        kind = (turn.source, worth_a_sketch(turn.answer))
        taken[kind] = taken.get(kind, 0) + 1
        if taken[kind] <= per_source:
            chosen.append(turn)
    return chosen


def answer_turns(
    model: Llama, encoder: Encoder, turns: Sequence[Turn], batch: int, seconds: float, path: Path
) -> dict[str, str]:
    """{turn id: greedy answer}, saved to `path` as it grows; answers that repeat themselves or have no end are omitted."""
    stop = stop_tokens(encoder.tokenizer)
    prompts = [encoder.prompt(turn.query) for turn in turns]
    room = model.config.max_position_embeddings - LONGEST_ANSWER
    fitting = [index for index, prompt in enumerate(prompts) if len(prompt) <= room]
    batches = same_length_batches([prompts[index] for index in fitting], batch)
    found: dict[str, str] = read_json(path) if path.exists() else {}
    started = saved = time.monotonic()
    for at in np.random.default_rng(0).permutation(len(batches)):
        rows = [fitting[row] for row in batches[at] if turns[fitting[row]].id not in found]
        if time.monotonic() - started >= seconds:
            break
        if not rows:
            continue
        answers = generate(model, [prompts[row] for row in rows], LONGEST_ANSWER, stop)
        for row, ids in zip(rows, answers, strict=True):
            text = encoder.tokenizer.decode(ids, skip_special_tokens=True).strip()
            found[turns[row].id] = text if is_finished(ids, stop) else ""
        if time.monotonic() - saved >= SAVE_EVERY_S:
            write_atomically(path, json.dumps(found).encode())
            saved = time.monotonic()
    write_atomically(path, json.dumps(found).encode())
    return found


def load_own_answers(work: Path) -> dict[str, str]:
    """{turn id: the LLM's own full answer, "" if it is unusable}; InputError if there are none."""
    return read_json(work / OWN_ANSWERS, "own_answers.py")


def replace_examples(work: Path, own: dict[str, np.ndarray], weight: int) -> dict[str, np.ndarray]:
    """The arrays of tasks.npz with the training part of REPLACED taken from `own`, `weight` times over."""
    replaced = tuple(f"train/{task}/" for task in REPLACED)
    kept = {name: array for name, array in load_arrays(work / TASKS, "tasks.py").items() if not name.startswith(replaced)}
    return kept | {name: np.concatenate([array] * weight) for name, array in own.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_texts(parser)
    add_work(parser)
    parser.add_argument("--name", default="llm", help="checkpoint that answers (default: llm)")
    parser.add_argument("--minutes", type=float, default=5, help="run time of this call in minutes (default: 5)")
    parser.add_argument("--batch", type=int, default=48, help="prompts of one length per batch (default: 48)")
    parser.add_argument("--per-source", type=int, default=6000, help="maximum number of turns per corpus and kind (default: 6000)")
    parser.add_argument("--weight", type=int, default=4, help="weight of each example (default: 4)")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    encoder, model = own_encoder(args.work), load_llm_checkpoint(args.work, args.name)
    turns = [turn for turn in load_turns(args.corpora, args.data) if turn.split == "train"]
    turns = sample(turns, args.per_source, args.seed)
    answers = answer_turns(model, encoder, turns, args.batch, args.minutes * 60, args.work / OWN_ANSWERS)
    made = [example for turn in turns if answers.get(turn.id) for example in own_examples(turn, answers[turn.id], encoder)]
    if not made:
        raise InputError("every answer of the model repeats itself or has no end; train the model longer or raise --minutes")
    own = encode_examples(made, encoder)
    save_arrays(args.work / OWN_TASKS, replace_examples(args.work, own, args.weight))
    counts = {name.split("/")[1]: len(array) for name, array in own.items() if name.endswith("/lengths")}
    print(json.dumps({"answers": len(answers), "usable": sum(map(bool, answers.values())), "examples": counts}))


if __name__ == "__main__":
    run(main)
