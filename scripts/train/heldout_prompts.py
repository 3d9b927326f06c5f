"""Writes test/fixtures/heldout-prompts.jsonl: prompts that the LLM has not seen, for tests and benchmarks.

    python scripts/train/heldout_prompts.py [--corpora DIR] [--work DIR] [--out FILE]

30 questions about a short section and 30 story continuations from FairytaleQA's val part (Apache-2.0), and 12
requests of our own wording in SGD's domains. Each prompt, rendered, is 20 to 200 tokens long.
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer

from corpus import Chat, load_chats
from errors import InputError, run
from files import write_atomically
from paths import REPOSITORY, add_corpora, add_work
from tokenizer import load_tokenizer, render

SHORTEST, LONGEST, PER_TASK = 20, 200, 30
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


def pick(chats: list[Chat], task: str, tokenizer: Tokenizer) -> list[dict]:
    """PER_TASK prompts of a task, one story after the other in turn, each the chat's first user message."""
    by_story: dict[str, list[dict]] = {}
    for chat in chats:
        first = chat.messages[:1]
        length = len(tokenizer.encode(render(first, add_generation_prompt=True)).ids)
        if chat.task == task and chat.split == "val" and SHORTEST <= length <= LONGEST:
            prompt = {"id": chat.id, "task": task, "messages": list(first)}
            by_story.setdefault(chat.id.split("#")[0], []).append(prompt)
    rounds = max(map(len, by_story.values()), default=0)
    in_turn = [prompts[turn] for turn in range(rounds) for prompts in by_story.values() if turn < len(prompts)]
    if len(in_turn) < PER_TASK:
        raise InputError(f"only {len(in_turn)} held-out {task} prompts of {SHORTEST} to {LONGEST} tokens; {PER_TASK} are needed")
    return in_turn[:PER_TASK]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpora(parser)
    add_work(parser)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    tokenizer = load_tokenizer(args.work)
    chats = load_chats(args.corpora)
    prompts = pick(chats, "story-qa", tokenizer) + pick(chats, "story", tokenizer)
    for number, request in enumerate(REQUESTS, 1):
        prompts.append({"id": f"request/{number}", "task": "request", "messages": [{"role": "user", "content": request}]})
    lengths = [len(tokenizer.encode(render(prompt["messages"], add_generation_prompt=True)).ids) for prompt in prompts]
    if not all(SHORTEST <= length <= LONGEST for length in lengths):
        raise InputError(f"a prompt is shorter than {SHORTEST} or longer than {LONGEST} tokens; reword it")
    lines = "".join(json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in prompts)
    write_atomically(args.out, lines.encode())
    print(json.dumps({"prompts": len(prompts), "shortest": min(lengths), "longest": max(lengths)}))


if __name__ == "__main__":
    run(main)
