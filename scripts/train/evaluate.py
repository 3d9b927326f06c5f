"""Measures an exported model: held-out perplexity, samples, and the accept length of its adapter.

    python scripts/train/evaluate.py [--model models/demo/llm] [--prompts FILE] [--out FILE]

Uses the exported fp16 weights in fp32 arithmetic; hidden states pass through fp16 at both cuts, as on the wire.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from dataset import IGNORE, load_pieces, pack, to_batch
from errors import InputError, run
from export import DEFAULT_OUT, SPLIT, load_exported, write_json
from generate import generate, same_length_batches, wire
from heldout_prompts import DEFAULT_OUT as DEFAULT_PROMPTS
from model import Adapter, Llama
from paths import REPOSITORY, add_work
from tokenizer import END_OF_TEXT, IM_END, load_tokenizer, render

GROUPS = ("sgd", "topical-chat", "story", "story-qa")
SAMPLES = ("request/1", "request/4", "request/5", "request/10")  # plus the first story and the first question
DEFAULT_RESULT = REPOSITORY / "docs" / "results" / "training" / "evaluation.json"


@torch.no_grad()
def perplexity(model: Llama, work: Path, task: str, windows: int) -> dict[str, float]:
    """{"perplexity": exp(mean loss per token), "tokens"} of a held-out task, packed windows of the context's length."""
    context = model.config.max_position_embeddings
    packed = pack(load_pieces(work, "val", task, context + 1), context + 1, np.random.default_rng(0))[:windows]
    total, tokens = 0.0, 0
    for at in range(0, len(packed), 8):
        inputs, targets = to_batch(packed[at : at + 8], context)
        deep = wire(model.deep(wire(model.shallow(inputs, SPLIT)), SPLIT))
        total += F.cross_entropy(model.head(deep).flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum").item()
        tokens += int((targets != IGNORE).sum())
    return {"perplexity": round(math.exp(total / tokens), 3), "tokens": tokens}


def rounds_of(matches: list[bool], probabilities: list[float], eta: float, longest: int) -> list[int]:
    """Accept lengths (tokens emitted, bonus included) of the verification rounds over one greedy answer.

    matches[i]: the draft model's choice for answer token i, given all tokens before it, is the LLM's;
    probabilities[i]: how sure it was. Token 0 comes from prefill. A round drafts until the probability falls under
    eta, that token included, or `longest` tokens (HAT Eq. 5); the longest matching prefix and one more token follow.
    """
    lengths = []
    at = 1
    while at < len(matches):
        accepted = 0
        while at + accepted < len(matches) and accepted < longest and matches[at + accepted]:
            accepted += 1
            if probabilities[at + accepted - 1] < eta:
                break
        lengths.append(min(accepted + 1, len(matches) - at))
        at += accepted + 1
    return lengths


@torch.no_grad()
def draft_choices(model: Llama, adapter: Adapter, prompt: list[int], answer: list[int]) -> tuple[list[bool], list[float]]:
    """(matches, probabilities) of the draft model along the LLM's greedy answer; see rounds_of."""
    ids = torch.tensor([prompt + answer[:-1]])
    probabilities = model.head(adapter(wire(model.shallow(ids, SPLIT))))[0, len(prompt) - 1 :].softmax(-1)
    best = probabilities.max(-1)  # one row per answer token
    return (best.indices == torch.tensor(answer)).tolist(), best.values.tolist()


def is_looping(answer: list[int]) -> bool:
    """More than half of the answer's 4-grams have occurred in it before: the model repeats itself."""
    grams = [tuple(answer[at : at + 4]) for at in range(len(answer) - 3)]
    return len(grams) - len(set(grams)) > len(grams) / 2


def accept_lengths(model: Llama, adapter: Adapter, pairs: list[tuple[list[int], list[int]]], eta: float, longest: int) -> dict:
    """Mean accept length and first-choice agreement over (prompt, greedy answer) pairs."""
    lengths: list[int] = []
    matches: list[bool] = []
    for prompt, answer in pairs:
        same, sure = draft_choices(model, adapter, prompt, answer)
        matches.extend(same)
        lengths.extend(rounds_of(same, sure, eta, longest))
    return {
        "acceptLength": round(sum(lengths) / len(lengths), 3),
        "agreement": round(sum(matches) / len(matches), 3),
        "answers": len(pairs),
        "loopingAnswers": sum(is_looping(answer) for _, answer in pairs),
        "tokens": len(matches),
        "rounds": len(lengths),
    }


def read_prompts(path: Path) -> list[dict]:
    """Prompts of a JSON lines file."""
    try:
        prompts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read prompts from {path} ({error}); run heldout_prompts.py") from error
    if not prompts:
        raise InputError(f"{path} is empty; run heldout_prompts.py")
    return prompts


def answer_all(model: Llama, prompts: list[list[int]], max_new: int, stop: set[int]) -> list[list[int]]:
    """Greedy answers to prompts of any lengths, in order."""
    answers: list[list[int]] = [[] for _ in prompts]
    for batch in same_length_batches(prompts, 32):
        for index, answer in zip(batch, generate(model, [prompts[index] for index in batch], max_new, stop, SPLIT), strict=True):
            answers[index] = answer
    return answers


def samples(model: Llama, tokenizer: Tokenizer, prompts: list[dict], answers: list[list[int]], stop: set[int]) -> list[dict]:
    """A few prompts with the greedy answer and one sampled at temperature 0.7."""
    wanted = set(SAMPLES) | {next(p["id"] for p in prompts if p["task"] == task) for task in ("story", "story-qa")}
    shown = []
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if prompt["id"] in wanted:
            ids = tokenizer.encode(render(prompt["messages"], add_generation_prompt=True)).ids
            sampler = torch.Generator().manual_seed(number)
            sampled = generate(model, [ids], 128, stop, SPLIT, temperature=0.7, generator=sampler)[0]
            texts = {"greedy": tokenizer.decode(answer), "sampled": tokenizer.decode(sampled)}
            shown.append({"id": prompt["id"], "prompt": prompt["messages"][-1]["content"], **texts})
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--model", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--prompts", type=Path, default=DEFAULT_PROMPTS)
    parser.add_argument("--out", type=Path, default=DEFAULT_RESULT)
    parser.add_argument("--eta", type=float, default=0.6, help="HAT Eq. 5")
    parser.add_argument("--longest-draft", type=int, default=8)
    parser.add_argument("--max-new", type=int, default=128)
    parser.add_argument("--windows", type=int, default=300, help="held-out windows of 512 tokens per task, at most")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = load_tokenizer(args.model)
    model, adapter = load_exported(args.model)
    stop = {tokenizer.token_to_id(IM_END), tokenizer.token_to_id(END_OF_TEXT)}
    prompts = read_prompts(args.prompts)
    encoded = [tokenizer.encode(render(prompt["messages"], add_generation_prompt=True)).ids for prompt in prompts]
    started = time.perf_counter()
    answers = answer_all(model, encoded, args.max_new, stop)
    seconds = time.perf_counter() - started
    pairs = list(zip(encoded, answers, strict=True))
    tasks = sorted({prompt["task"] for prompt in prompts})
    drafting = {
        task: accept_lengths(
            model,
            adapter,
            [pair for pair, prompt in zip(pairs, prompts, strict=True) if prompt["task"] == task],
            args.eta,
            args.longest_draft,
        )
        for task in tasks
    }
    result = {
        "weights": sum(weight.numel() for weight in model.parameters()),
        "adapterWeights": sum(weight.numel() for weight in adapter.parameters()),
        "trainingTokens": sum(map(len, load_pieces(args.work, "train", None, 1 << 30))),
        "heldOut": {task: perplexity(model, args.work, task, args.windows) for task in GROUPS},
        "drafting": {
            "eta": args.eta,
            "longestDraft": args.longest_draft,
            "all": accept_lengths(model, adapter, pairs, args.eta, args.longest_draft),
            "without-loops": accept_lengths(
                model, adapter, [pair for pair in pairs if not is_looping(pair[1])], args.eta, args.longest_draft
            ),
            **drafting,
        },
        "generatedTokensPerS": round(sum(map(len, answers)) / seconds),
        "samples": samples(model, tokenizer, prompts, answers, stop),
    }
    write_json(args.out, result)
    print(json.dumps({key: value for key, value in result.items() if key != "samples"}, indent=1))


if __name__ == "__main__":
    run(main)
