"""Writes test/fixtures/heldout-prompts.jsonl: prompts that no model was trained on, for tests and benchmarks.

    python scripts/train/heldout_prompts.py [--corpora DIR] [--work DIR] [--out FILE]

Lines of {"id", "task", "messages", "answer"}. First the chats: 30 questions about a short section and 30 story continuations
from FairytaleQA's val part (Apache-2.0), and 12 hand-written requests in SGD's domains, which have no answer; each
prompt, rendered, is 20 to 200 tokens long. Then 12 of each generated task (foresight, sketch-1 … sketch-3, expansion), from the
held-out parts of all corpora in turn, and 6 of each long task, for a context of 2,048. At the end the long forms of long_form.py: 15 guides,
15 tales, and 6 of each generated task of them, as `long-form-…`. `answer` is the answer that tasks.py would train on.
"""

import argparse
import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from corpus import FILES, Chat, load_chats, read_records
from encode import Encoder, own_encoder
from errors import InputError, run
from files import write_atomically
from long_form import LONG_FORMS, long_form_chats
from paths import REPOSITORY, add_corpora, add_work
from tasks import Example, chat_examples, long_examples

SHORTEST, LONGEST, PER_TASK = 20, 200, 30
MADE, MADE_LONGEST, PER_MADE = ("foresight", "sketch-1", "sketch-2", "sketch-3", "expansion"), 380, 12
LONG, LONG_LONGEST, PER_LONG = ("long-story", "long-qa"), 1900, 6  # so that 128 tokens of answer fit 2,048
PER_FORM, PER_MADE_FORM = 15, 6
DEFAULT_OUT = REPOSITORY / "test" / "fixtures" / "heldout-prompts.jsonl"
REQUESTS = (
    "Hi, I'm hungry. Could you find me a good Italian restaurant in Oakland that isn't too expensive?",
    "Please book a table for four people at a Chinese restaurant in San Jose tomorrow at 7 pm.",
    "I need a flight from Seattle to New York next Monday, one economy ticket if that's possible.",
    "What will the weather be like in San Francisco on Saturday? I'm planning a picnic there.",
    "I'd like to check the balance of my savings account and then send some money to my sister.",
    "Can you find a hotel with free wifi in London for three nights? I will travel with my wife.",
    "I want to rent a car in Los Angeles from the 5th of March until the 9th. What do you have?",
    "Are there any rock concerts in Portland this weekend? I would like to buy two tickets.",
    "I'm looking for a dentist in Berkeley. Please tell me the address and the phone number.",
    "Play a song for me, something slow and quiet that I can listen to in my living room.",
    "Find me a comedy movie that is showing tonight in Sacramento and reserve three seats.",
    "I need a two bedroom apartment in Mountain View with a garage. Pets should be allowed.",
)
T = TypeVar("T")


def in_turn(groups: Iterable[Sequence[T]]) -> list[T]:
    """One of each group after the other, until all are used up."""
    return [item for row in zip_longest(*groups) for item in row if item is not None]


def by_hash(name: str) -> bytes:
    """A sort key that gives names a stable, arbitrary order."""
    return hashlib.sha256(name.encode()).digest()


def prompt_of(example: Example | Chat, task: str) -> dict:
    """The messages before the first answer that counts, and that answer."""
    at = getattr(example, "answers_from", None) or 1
    answer = example.messages[at]["content"]
    return {"id": example.id, "task": task, "messages": list(example.messages[:at]), "answer": answer}


def pick(examples: Iterable[Example | Chat], task: str, encoder: Encoder, lengths: tuple[int, int], count: int) -> list[dict]:
    """`count` held-out prompts of a task whose length in tokens is within `lengths`, one of each source in turn.

    A source is a story for the stories' chats, in the corpus's order; for made and long examples a corpus, in order by hash.
    """
    chats = task not in MADE + LONG
    chosen = [example for example in examples if example.task == task and example.split == "val"]
    groups: dict[str, list[dict]] = {}
    for example in chosen if chats else sorted(chosen, key=lambda example: by_hash(example.id)):
        prompt = prompt_of(example, task)
        if lengths[0] <= len(encoder.prompt(prompt["messages"])) <= lengths[1]:
            groups.setdefault(example.id.split("#" if chats else "/")[0], []).append(prompt)
    found = in_turn(groups.values())
    if len(found) < count:
        raise InputError(f"only {len(found)} held-out {task} prompts of {lengths[0]} to {lengths[1]} tokens; {count} are needed")
    return found[:count]


def held_out_prompts(corpora: Path, encoder: Encoder) -> list[dict]:
    """Every prompt, chats first."""
    chats = [chat for chat in load_chats(corpora) if chat.split == "val"]
    prompts = [prompt for task in ("story-qa", "story") for prompt in pick(chats, task, encoder, (SHORTEST, LONGEST), PER_TASK)]
    for number, request in enumerate(REQUESTS, 1):
        prompts.append({"id": f"request/{number}", "task": "request", "messages": [{"role": "user", "content": request}]})
    made = list(chat_examples(chats, encoder))
    prompts += [prompt for task in MADE for prompt in pick(made, task, encoder, (SHORTEST, MADE_LONGEST), PER_MADE)]
    stories = [record for record in read_records(corpora / FILES["fairytaleqa"]) if record["split"] == "val"]
    long = [example for record in stories for example in long_examples(record, encoder)]
    prompts += [prompt for task in LONG for prompt in pick(long, task, encoder, (MADE_LONGEST, LONG_LONGEST), PER_LONG)]
    return prompts + long_form_prompts(encoder)


def long_form_prompts(encoder: Encoder) -> list[dict]:
    """Held-out combinations of long_form.py, and tasks generated from them."""
    forms = [chat for chat in long_form_chats() if chat.split == "val"]
    prompts = [prompt for task in LONG_FORMS for prompt in pick(forms, task, encoder, (SHORTEST, LONGEST), PER_FORM)]
    made = list(chat_examples(forms, encoder))
    for task in MADE:
        found = pick(made, task, encoder, (SHORTEST, MADE_LONGEST), PER_MADE_FORM)
        prompts += [{**prompt, "task": f"long-form-{task}"} for prompt in found]
    return prompts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpora(parser)
    add_work(parser)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default: test/fixtures/heldout-prompts.jsonl")
    args = parser.parse_args()
    encoder = own_encoder(args.work)
    prompts = held_out_prompts(args.corpora, encoder)
    lengths = [len(encoder.prompt(prompt["messages"])) for prompt in prompts]
    if min(lengths) < SHORTEST:
        raise InputError(f"a prompt is shorter than {SHORTEST} tokens; reword it")
    lines = "".join(json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in prompts)
    write_atomically(args.out, lines.encode())
    print(json.dumps({"prompts": len(prompts), "shortest": min(lengths), "longest": max(lengths), "bytes": len(lines.encode())}))


if __name__ == "__main__":
    run(main)
