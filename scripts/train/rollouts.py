"""Generates the LLM's answers to training prompts, so that drafters are trained on the LLM's own text.

    nice -n 10 python scripts/train/rollouts.py --minutes 4
    python scripts/train/rollouts.py --minutes inf --batches 35   # without a time limit
    python scripts/train/rollouts.py --data chats.jsonl --work own --base Qwen2.5-0.5B-Instruct --split 2

Writes <work>/rollouts.npz: concatenated ids (uint16, or int32 for large vocabularies); int32 per answer: `lengths` of prompt and
answer together, `prompts` of the prompt alone; `done`, the batches so far. Half of the answers are greedy, half sampled
at temperature 0.7. Saved every minute; run it again to resume.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from base import BaseEncoder, add_base, load_base, split_of
from corpus import Chat, Message
from dataset import load_tokens
from encode import Encoder, own_encoder
from errors import InputError, run
from export import load_llm_checkpoint
from files import load_arrays, save_arrays
from generate import generate, same_length_batches
from paths import add_repeat, add_seed, add_threads, add_work
from tasks import user_chats
from tokenizer import IM_START, stop_tokens

LONGEST_PROMPT, LONGEST_ANSWER, TEMPERATURE = 320, 160, 0.7
UNANSWERED = ("recovery",)  # tasks whose answers are partly given


def answer_prompts(chats: list[Chat], encode: Callable[[Sequence[Message]], list[int]], seed: int) -> list[list[int]]:
    """One prompt per chat: the messages before one of its assistant turns, chosen by `seed`; long prompts are omitted."""
    rng = np.random.default_rng(seed)
    prompts = []
    for chat in chats:
        turns = [index for index, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if turns:
            asked = chat.messages[: turns[rng.integers(len(turns))]]
            if asked:
                prompts.append(encode(asked))
    return [prompt for prompt in prompts if len(prompt) <= LONGEST_PROMPT]


def stored_prompts(work: Path, encoder: Encoder, per_task: int, seed: int, repeat: dict[str, float]) -> list[list[int]]:
    """Prompts of training examples: `per_task` times its weight of every task, each up to one of its answers; long prompts are omitted."""
    arrays, rng = load_tokens(work), np.random.default_rng(seed)
    opening = encoder.tokenizer.encode(f"{IM_START}assistant\n", add_special_tokens=False).ids
    prompts = []
    for name in sorted(name for name in arrays if name.startswith("train/") and name.endswith("/ids")):
        task = name.split("/")[1]
        if task in UNANSWERED:
            continue
        ids, ends = arrays[name], np.cumsum(arrays[name.replace("/ids", "/lengths")])
        for index in rng.permutation(len(ends))[: round(per_task * repeat.get(task, 1))]:
            example = ids[ends[index - 1] if index else 0 : ends[index]]
            found = np.all([np.roll(example, -at) == token for at, token in enumerate(opening)], axis=0).nonzero()[0]
            if len(found):
                prompts.append(example[: rng.choice(found) + len(opening)].tolist())
    return [prompt for prompt in prompts if len(prompt) <= LONGEST_PROMPT]


@dataclass(frozen=True)
class Rollout:
    """A prompt and the LLM's answer to it."""

    ids: np.ndarray
    prompt_tokens: int

    @property
    def prompt(self) -> list[int]:
        return self.ids[: self.prompt_tokens].tolist()

    @property
    def answer(self) -> list[int]:
        return self.ids[self.prompt_tokens :].tolist()

    def marked(self) -> np.ndarray:
        """The tokens, with those of the prompt as ~id: read, but not trained on (see dataset.py)."""
        ids = self.ids.astype(np.int32)
        return np.where(np.arange(len(ids)) < self.prompt_tokens, ~ids, ids)


def load_rollouts(path: Path) -> tuple[list[Rollout], int]:
    """(rollouts, batches done) of a rollouts file; InputError if it is missing or damaged."""
    arrays = load_arrays(path, "rollouts.py")
    if "prompts" not in arrays:
        raise InputError(f"{path} has no prompt lengths; delete it and run rollouts.py again")
    sequences = np.split(arrays["ids"], np.cumsum(arrays["lengths"])[:-1])
    prompts = arrays["prompts"].tolist()
    return [Rollout(ids, prompt) for ids, prompt in zip(sequences, prompts, strict=True)], int(arrays["done"])


def save_rollouts(path: Path, rollouts: list[Rollout], done: int) -> None:
    """Writes rollouts and the number of batches done, atomically."""
    lengths = np.asarray([len(rollout.ids) for rollout in rollouts], np.int32)
    prompts = np.asarray([rollout.prompt_tokens for rollout in rollouts], np.int32)
    ids = np.concatenate([rollout.ids for rollout in rollouts])
    save_arrays(path, {"ids": ids, "lengths": lengths, "prompts": prompts, "done": np.asarray(done)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="JSON lines of chats (see tasks.py) in place of tasks.npz")
    add_work(parser)
    add_base(parser)
    parser.add_argument("--minutes", type=float, default=4, help="run time of this call in minutes; inf with --batches (default: 4)")
    parser.add_argument("--batches", type=int, default=1_000_000, help="total number of batches (default: no limit)")
    parser.add_argument("--per-task", type=int, default=1500, help="maximum number of prompts per task of tasks.npz (default: 1500)")
    parser.add_argument("--batch", type=int, default=48, help="prompts of one length per batch (default: 48)")
    add_repeat(parser)
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.base and not args.data:
        raise InputError("--base needs --data, because the corpora are only for the models of this repository")
    if args.base:
        model = load_base(args.base, args.split, args.device, args.batch * (LONGEST_PROMPT + LONGEST_ANSWER))
        encoder, stop = BaseEncoder(args.base), model.stop
    else:
        encoder, model = own_encoder(args.work), load_llm_checkpoint(args.work)
        stop = stop_tokens(encoder.tokenizer)
    if args.data:
        chats = [chat for chat in user_chats(args.data) if chat.split == "train"]
        prompts = answer_prompts(chats, encoder.prompt, args.seed)
    else:
        prompts = stored_prompts(args.work, encoder, args.per_task, args.seed, dict(args.repeat))
    if not prompts:
        raise InputError(f"no chat has a prompt of at most {LONGEST_PROMPT} tokens followed by an answer")
    batches = same_length_batches(prompts, args.batch)
    order = np.random.default_rng(args.seed).permutation(len(batches))
    path = args.work / "rollouts.npz"
    rollouts, done = load_rollouts(path) if path.exists() else ([], 0)
    kind = np.uint16 if model.config.vocab_size <= 1 << 16 else np.int32
    started = saved = time.monotonic()
    while done < min(len(order), args.batches) and time.monotonic() - started < args.minutes * 60:
        batch = [prompts[index] for index in batches[order[done]]]
        sampler = torch.Generator().manual_seed(args.seed * 1_000_003 + done)
        temperature = TEMPERATURE if done % 2 else 0.0
        answers = generate(model, batch, LONGEST_ANSWER, stop, split_of(model), temperature, sampler)
        rollouts.extend(Rollout(np.asarray(p + a, kind), len(p)) for p, a in zip(batch, answers, strict=True))
        done += 1
        if time.monotonic() - saved > 60:
            save_rollouts(path, rollouts, done)
            saved = time.monotonic()
    if not rollouts:
        raise InputError("no answer was generated; raise --minutes or --batches")
    save_rollouts(path, rollouts, done)
    tokens = sum(len(rollout.ids) for rollout in rollouts)
    print(json.dumps({"rollouts": len(rollouts), "tokens": tokens, "batches": done}))


if __name__ == "__main__":
    run(main)
