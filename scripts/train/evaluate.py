"""Measures a model of <work> on held-out text: perplexity per task and by position, samples.

    python scripts/train/evaluate.py --name llm [--out FILE]
    python scripts/train/evaluate.py --name slm-deep --samples 0

The text is the held-out part of tasks.npz. Weights are rounded to fp16 as in the exported file, and hidden states to fp16 at
both cuts as on the wire. Perplexity is exp(mean loss) over the tokens that would be trained on: all of a chat, only the answer
of a generated example. Every example starts at position 0 with nothing before it, as in use; chats longer than the context are cut.
"""

import argparse
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from base import Teacher, split_of
from dataset import IGNORE, batches_by_length, load_groups, some_of, to_batch, width_of
from encode import Encoder, own_encoder
from errors import InputError, run
from export import load_llm_checkpoint, write_json
from generate import generate, same_length_batches, wire
from heldout_prompts import DEFAULT_OUT as DEFAULT_PROMPTS
from long_form import LONG_FORMS
from model import SPLIT, Llama
from paths import RESULTS, add_threads, add_work
from tokenizer import stop_tokens

SHORT = 1024
BUCKETS = (0, 128, 256, 512, 1024, 2048)  # positions: from one up to the next
BATCH_TOKENS = 8192
MAX_NEW, MAX_NEW_OF_LONG = 128, 420  # tokens of an answer, of a guide or tale that is shown


@dataclass
class Losses:
    """Sum and number of token losses at each position of a context."""

    sums: np.ndarray = field(default_factory=lambda: np.zeros(BUCKETS[-1]))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BUCKETS[-1], np.int64))

    def add(self, losses: Tensor, targets: Tensor) -> None:
        """Losses and targets, [windows, time]."""
        learnt, time_ = targets != IGNORE, targets.shape[1]
        self.sums[:time_] += (losses * learnt).sum(0).double().numpy()
        self.counts[:time_] += learnt.sum(0).numpy()

    def between(self, start: int, end: int) -> dict[str, float]:
        """{"perplexity", "tokens"} of the positions start … end−1; {} without tokens."""
        tokens = int(self.counts[start:end].sum())
        return {"perplexity": round(math.exp(self.sums[start:end].sum() / tokens), 3), "tokens": tokens} if tokens else {}

    def by_position(self) -> list[dict[str, float]]:
        """{"from", "to", "perplexity", "tokens"} of every bucket that has tokens; `to` is the first position after it."""
        rows = [{"from": start, "to": end, **self.between(start, end)} for start, end in zip(BUCKETS, BUCKETS[1:], strict=False)]
        return [row for row in rows if "tokens" in row]


@torch.no_grad()
def losses_of(model: Llama, examples: list[np.ndarray]) -> Losses:
    """Losses of the tokens to train on in examples of at most context + 1 tokens, each from position 0."""
    found = Losses()
    for rows in batches_by_length(examples, BATCH_TOKENS, np.random.default_rng(0)):
        inputs, targets = to_batch(rows, min(width_of(rows), model.config.max_position_embeddings))
        deep = wire(model.deep(wire(model.shallow(inputs, SPLIT)), SPLIT))
        losses = F.cross_entropy(model.head(deep).flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none")
        found.add(losses.view_as(targets), targets)
    return found


def held_out(model: Llama, work: Path, tokens: int) -> tuple[dict[str, dict], dict[str, list[dict]]]:
    """({task: perplexity and tokens}, {task with examples beyond SHORT positions: perplexity by position}), over random examples of
    about `tokens` held-out tokens of a task."""
    context = model.config.max_position_embeddings
    groups = load_groups(work, "val", context + 1)
    found = {task: losses_of(model, some_of(pieces, tokens)) for task, pieces in groups.items()}
    long = {task: losses for task, losses in found.items() if losses.counts[SHORT:].any()}
    return {task: losses.between(0, context) for task, losses in found.items()}, {task: each.by_position() for task, each in long.items()}


def is_looping(answer: list[int]) -> bool:
    """More than half of the answer's 4-grams have occurred in it before: the model repeats itself."""
    grams = [tuple(answer[at : at + 4]) for at in range(len(answer) - 3)]
    return len(grams) - len(set(grams)) > len(grams) / 2


def is_finished(answer: list[int], stop: set[int]) -> bool:
    """Whether an answer has an end and does not repeat itself."""
    return bool(answer) and answer[-1] in stop and not is_looping(answer)


def read_prompts(path: Path) -> list[dict]:
    """Prompts of a JSON lines file with `messages` or `prompt`; missing `id` and `task` get default values."""
    prompts = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                record = json.loads(line)
                messages = record.get("messages") or [{"role": "user", "content": record["prompt"]}]
                prompts.append({"id": str(number), "task": "prompt", **record, "messages": messages})
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"cannot read prompts from {path} ({error}); run heldout_prompts.py") from error
    if not prompts:
        raise InputError(f"{path} is empty; run heldout_prompts.py")
    return prompts


def answer_all(model: Teacher, prompts: list[list[int]], max_new: int, stop: set[int]) -> list[list[int]]:
    """Greedy answers to prompts of any lengths, in order."""
    answers: list[list[int]] = [[] for _ in prompts]
    for batch in same_length_batches(prompts, 32):
        for index, answer in zip(batch, generate(model, [prompts[index] for index in batch], max_new, stop, split_of(model)), strict=True):
            answers[index] = answer
    return answers


def shown_prompts(prompts: Iterable[dict], per_task: int) -> list[dict]:
    """The first prompts of every task; the choice is not manual."""
    shown: dict[str, list[dict]] = {}
    for prompt in prompts:
        shown.setdefault(prompt["task"], []).append(prompt)
    return [prompt for group in shown.values() for prompt in group[:per_task]]


def samples(model: Llama, encoder: Encoder, prompts: list[dict]) -> list[dict]:
    """Each prompt with the greedy answer, one sampled at temperature 0.7, and the real answer if there is one.

    Prompts that leave no room for an answer in the model's context are left out.
    """
    shown, stop = [], stop_tokens(encoder.tokenizer)
    for number, prompt in enumerate(prompts):
        ids = encoder.prompt(prompt["messages"])
        max_new = MAX_NEW_OF_LONG if prompt["task"] in LONG_FORMS else MAX_NEW
        if len(ids) + max_new > model.config.max_position_embeddings:
            continue
        sampler = torch.Generator().manual_seed(number)
        (greedy,) = generate(model, [ids], max_new, stop, SPLIT)
        (sampled,) = generate(model, [ids], max_new, stop, SPLIT, temperature=0.7, generator=sampler)
        shown.append(
            {
                "id": prompt["id"],
                "task": prompt["task"],
                "prompt": prompt["messages"][-1]["content"],
                "greedy": encoder.tokenizer.decode(greedy),
                "greedyLoops": is_looping(greedy),
                "sampled": encoder.tokenizer.decode(sampled),
                **({"answer": prompt["answer"]} if "answer" in prompt else {}),
            }
        )
    return shown


def greedy_ends(model: Llama, encoder: Encoder, prompts: list[dict]) -> dict[str, dict[str, int]]:
    """{task: {"answers", "looping"}} of greedy answers of at most MAX_NEW tokens to the prompts that leave room for them."""
    stop, room = stop_tokens(encoder.tokenizer), model.config.max_position_embeddings - MAX_NEW
    asked = [(prompt["task"], ids) for prompt in prompts if len(ids := encoder.prompt(prompt["messages"])) <= room]
    answers = answer_all(model, [ids for _, ids in asked], MAX_NEW, stop)
    found: dict[str, dict[str, int]] = {}
    for (task, _), answer in zip(asked, answers, strict=True):
        row = found.setdefault(task, {"answers": 0, "looping": 0})
        row["answers"] += 1
        row["looping"] += is_looping(answer)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--name", default="llm", help="checkpoint to measure (default: llm)")
    parser.add_argument("--prompts", type=Path, default=DEFAULT_PROMPTS, help="JSON lines (default: the held-out ones)")
    parser.add_argument("--out", type=Path, help="default: docs/results/training/evaluation-<name>.json")
    parser.add_argument("--tokens", type=int, default=40_000, help="approximate maximum of held-out tokens per task (default: 40000)")
    parser.add_argument("--samples", type=int, default=2, help="sample prompts per task; 0 for none (default: 2)")
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    encoder, model = own_encoder(args.work), load_llm_checkpoint(args.work, args.name)
    prompts = read_prompts(args.prompts)
    per_task, by_position = held_out(model, args.work, args.tokens)
    result = {
        "name": args.name,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "config": model.config.to_dict(),
        "heldOut": per_task,
        "heldOutByPosition": by_position,
        "greedy": greedy_ends(model, encoder, prompts),
        "samples": samples(model, encoder, shown_prompts(prompts, args.samples)),
    }
    write_json(args.out or RESULTS / f"evaluation-{args.name}.json", result)
    print(json.dumps({key: value for key, value in result.items() if key != "samples"}, indent=1))


if __name__ == "__main__":
    run(main)
