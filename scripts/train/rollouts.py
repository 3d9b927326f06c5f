"""Lets the LLM answer training prompts, so that the adapter learns the text it will draft: the LLM's own.

    nice -n 10 python scripts/train/rollouts.py --minutes 4
    python scripts/train/rollouts.py --minutes inf --batches 35   # the same without a clock

Writes <work>/rollouts.npz (ids uint16 end to end, lengths int32: prompt and answer together). Half of the answers
are greedy, half sampled at temperature 0.7. Saved every minute; run again to go on.
"""

import argparse
import io
import json
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from corpus import Chat, load_chats
from dataset import TASKS, add_tasks
from encode import own_encoder
from errors import InputError, run
from export import load_llm_checkpoint
from files import write_atomically
from generate import generate, same_length_batches
from paths import add_corpora, add_work
from tasks import Example, corpus_examples
from tokenizer import END_OF_TEXT, IM_END, load_tokenizer, render

LONGEST_PROMPT, LONGEST_ANSWER, TEMPERATURE = 320, 160, 0.7


def answer_prompts(chats: list[Chat | Example], tokenizer: Tokenizer, seed: int) -> list[list[int]]:
    """One prompt per chat: the messages before one of its assistant turns, chosen by `seed`; long prompts left out."""
    rng = np.random.default_rng(seed)
    texts = []
    for chat in chats:
        turns = [index for index, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if turns:
            texts.append(render(chat.messages[: turns[rng.integers(len(turns))]], add_generation_prompt=True))
    prompts = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]
    return [prompt for prompt in prompts if len(prompt) <= LONGEST_PROMPT]


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
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--batches", type=int, default=1_000_000, help="stop after so many batches in all")
    parser.add_argument("--batch", type=int, default=48, help="prompts of one length per batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = load_tokenizer(args.work)
    model = load_llm_checkpoint(args.work)
    chats = corpus_examples(args.corpora, own_encoder(args.work)) if args.file == TASKS else load_chats(args.corpora)
    chats = [chat for chat in chats if chat.split == "train"]
    prompts = answer_prompts(chats, tokenizer, args.seed)
    batches = same_length_batches(prompts, args.batch)
    order = np.random.default_rng(args.seed).permutation(len(batches))
    path = args.work / "rollouts.npz"
    sequences, done = load_rollouts(path) if path.exists() else ([], 0)
    stop = {tokenizer.token_to_id(IM_END), tokenizer.token_to_id(END_OF_TEXT)}
    started = saved = time.monotonic()
    while done < min(len(order), args.batches) and time.monotonic() - started < args.minutes * 60:
        batch = [prompts[index] for index in batches[order[done]]]
        sampler = torch.Generator().manual_seed(args.seed * 1_000_003 + done)
        temperature = TEMPERATURE if done % 2 else 0.0
        answers = generate(model, batch, LONGEST_ANSWER, stop, temperature=temperature, generator=sampler)
        sequences.extend(np.asarray(p + a, np.uint16) for p, a in zip(batch, answers, strict=True))
        done += 1
        if time.monotonic() - saved > 60:
            save_rollouts(path, sequences, done)
            saved = time.monotonic()
    save_rollouts(path, sequences, done)
    print(json.dumps({"sequences": len(sequences), "tokens": int(sum(map(len, sequences))), "batches": done}))


if __name__ == "__main__":
    run(main)
