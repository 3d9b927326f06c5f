"""Lets the LLM answer training prompts, so that the adapter learns the text it will draft: the LLM's own.

    nice -n 10 python scripts/train/rollouts.py --minutes 4
    python scripts/train/rollouts.py --minutes inf --batches 35   # the same without a clock
    python scripts/train/rollouts.py --data chats.jsonl --work own --base Qwen2.5-0.5B-Instruct --split 2

Writes <work>/rollouts.npz (ids uint16, or int32 for large vocabularies, end to end, lengths int32: prompt and answer together). Half of the answers
are greedy, half sampled at temperature 0.7. Saved every minute; run again to go on.
"""

import argparse
import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from base import BaseEncoder, add_base, load_base, memory_errors, split_of
from corpus import Chat, Message, load_chats
from dataset import TASKS, add_tasks
from encode import own_encoder
from errors import InputError, run
from export import load_llm_checkpoint
from files import write_atomically
from generate import generate, same_length_batches
from paths import add_corpora, add_work
from tasks import Example, corpus_examples, user_chats
from tokenizer import END_OF_TEXT, IM_END, load_tokenizer, render

LONGEST_PROMPT, LONGEST_ANSWER, TEMPERATURE = 320, 160, 0.7


def answer_prompts(chats: list[Chat | Example], encode: Callable[[Sequence[Message]], list[int]], seed: int) -> list[list[int]]:
    """One prompt per chat: the messages before one of its assistant turns, chosen by `seed`; long prompts left out."""
    rng = np.random.default_rng(seed)
    prompts = []
    for chat in chats:
        turns = [index for index, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if turns:
            asked = chat.messages[: turns[rng.integers(len(turns))]]
            if asked:
                prompts.append(encode(asked))
    return [prompt for prompt in prompts if len(prompt) <= LONGEST_PROMPT]


def own_prompt(tokenizer: Tokenizer) -> Callable[[Sequence[Message]], list[int]]:
    """Messages → ids of a prompt in our own chat template."""
    return lambda messages: tokenizer.encode(render(list(messages), add_generation_prompt=True)).ids


def load_rollouts(path: Path) -> tuple[list[np.ndarray], int]:
    """(sequences, batches done) of a rollouts file."""
    try:
        with np.load(path) as arrays:
            return np.split(arrays["ids"], np.cumsum(arrays["lengths"])[:-1]), int(arrays["done"])
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it to make the rollouts again") from error


def save_rollouts(path: Path, sequences: list[np.ndarray], done: int) -> None:
    """Writes sequences and the number of batches done, atomically."""
    buffer = io.BytesIO()
    lengths = np.asarray([len(sequence) for sequence in sequences], np.int32)
    np.savez(buffer, ids=np.concatenate(sequences), lengths=lengths, done=np.asarray(done))
    write_atomically(path, buffer.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpora(parser)
    add_work(parser)
    add_tasks(parser)
    add_base(parser)
    parser.add_argument("--data", type=Path, help="JSON lines of chats (see tasks.py) in place of the corpora")
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--batches", type=int, default=1_000_000, help="stop after so many batches in all")
    parser.add_argument("--batch", type=int, default=48, help="prompts of one length per batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.base and not args.data:
        raise InputError("--base needs --data: the corpora are for the models of this repository")
    if args.base:
        model = load_base(args.base, args.split, args.device, args.batch * (LONGEST_PROMPT + LONGEST_ANSWER))
        encode, stop = BaseEncoder(args.base).prompt, model.stop
    else:
        tokenizer, model = load_tokenizer(args.work), load_llm_checkpoint(args.work)
        encode, stop = own_prompt(tokenizer), {tokenizer.token_to_id(IM_END), tokenizer.token_to_id(END_OF_TEXT)}
    if args.data:
        chats = user_chats(args.data)
    else:
        chats = corpus_examples(args.corpora, own_encoder(args.work)) if args.file == TASKS else load_chats(args.corpora)
    chats = [chat for chat in chats if chat.split == "train"]
    prompts = answer_prompts(chats, encode, args.seed)
    if not prompts:
        raise InputError(f"no chat has a prompt of at most {LONGEST_PROMPT} tokens with an answer after it")
    batches = same_length_batches(prompts, args.batch)
    order = np.random.default_rng(args.seed).permutation(len(batches))
    path = args.work / "rollouts.npz"
    sequences, done = load_rollouts(path) if path.exists() else ([], 0)
    kind = np.uint16 if model.config.vocab_size <= 1 << 16 else np.int32
    started = saved = time.monotonic()
    while done < min(len(order), args.batches) and time.monotonic() - started < args.minutes * 60:
        batch = [prompts[index] for index in batches[order[done]]]
        sampler = torch.Generator().manual_seed(args.seed * 1_000_003 + done)
        temperature = TEMPERATURE if done % 2 else 0.0
        with memory_errors():
            answers = generate(model, batch, LONGEST_ANSWER, stop, split_of(model), temperature, sampler)
        sequences.extend(np.asarray(p + a, kind) for p, a in zip(batch, answers, strict=True))
        done += 1
        if time.monotonic() - saved > 60:
            save_rollouts(path, sequences, done)
            saved = time.monotonic()
    save_rollouts(path, sequences, done)
    print(json.dumps({"sequences": len(sequences), "tokens": int(sum(map(len, sequences))), "batches": done}))


if __name__ == "__main__":
    run(main)
