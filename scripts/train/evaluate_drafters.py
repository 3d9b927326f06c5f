"""Compares the drafters of <work> on held-out prompts: adapter, paper's adapter, Medusa's tree and chain.

    python scripts/train/evaluate_drafters.py [--work DIR] [--prompts FILE] [--out FILE]
    python scripts/train/evaluate_drafters.py --work own --base Qwen2.5-0.5B-Instruct --split 2 --prompts FILE --out FILE

Drafters without a checkpoint in <work> are omitted, as are prompts that do not fit the context with an answer. The LLM is
<work>/llm.pt as export.py would write it, and its answers are greedy. Accept length counts the bonus token; without drafting it
is 1.00. Medusa's tree is the one that
export_medusa.py writes. Prompt lookup has no weights; the engine's benchmark measures it.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch

from base import BaseEncoder, Teacher, add_base, fingerprint, head_weight, load_base, split_of
from drafting import draft_choices, rounds_of
from encode import own_encoder
from errors import InputError, run
from evaluate import answer_all, read_prompts
from export import load_llm_checkpoint, write_json
from export_medusa import choose_tree, guess_answer
from feature_adapter import FeatureAdapter, draft_rounds, visible_features
from files import load_checkpoint
from generate import wire
from heldout_prompts import DEFAULT_OUT as DEFAULT_PROMPTS
from medusa import CHAIN, TREE_NODES, medusa_rounds
from model import Adapter
from paths import RESULTS, add_threads, add_work
from tokenizer import stop_tokens
from train_medusa import make_heads
from train_paper_adapter import make_paper_adapter

ETA, LONGEST = 0.6, 8  # HAT Eq. 5; drafted tokens at most
BASE_TOKENS = 32 * 512  # of a batch of answers, for the memory estimate
Ids = list[int]
Drafter = Callable[[Ids, Ids], list[int]]  # (prompt, greedy answer) → accept length of each verification round


def load_student(work: Path, name: str, student: torch.nn.Module, llm: str) -> torch.nn.Module:
    """A student with the weights of <work>/<name>.pt, fp16 as exported, frozen; InputError if it is of another LLM."""
    state = load_checkpoint(work / f"{name}.pt")
    if state["llm"] != llm:
        raise InputError(f"{work / name}.pt was trained for another LLM checkpoint; train it again")
    student.load_state_dict({key: tensor.half().float() for key, tensor in state[name].items()})
    return student.requires_grad_(False).eval()


def plain_rounds(model: Teacher, adapter: Adapter, prompt: Ids, answer: Ids) -> list[int]:
    """Rounds of the plain adapter."""
    return rounds_of(*draft_choices(model, adapter, prompt, answer), ETA, LONGEST)


@torch.no_grad()
def feature_rounds(model: Teacher, adapter: FeatureAdapter, prompt: Ids, answer: Ids) -> list[int]:
    """Rounds of the adapter with features, which knows deep states of the last prompt position and of the answer only."""
    ids = torch.tensor([prompt + answer[:-1]])
    shallow = wire(model.shallow(ids, split_of(model)))
    generated = torch.arange(ids.shape[1], device=shallow.device) >= len(prompt)
    features = visible_features(wire(model.deep(shallow, split_of(model))), generated[None])
    matches, probabilities = [], []
    for states in adapter.roll_out(shallow, features, LONGEST):
        best = model.head(states)[0, len(prompt) - 1 :].softmax(-1).cpu().max(-1)
        matches.append((best.indices == torch.tensor(answer)).tolist())
        probabilities.append(best.values.tolist())
    return draft_rounds(matches, probabilities, ETA)


def load_drafters(model: Teacher, work: Path) -> dict[str, Drafter]:
    """All drafters with a checkpoint."""
    llm, device, drafters = fingerprint(model), head_weight(model).device, {}
    if (work / "adapter.pt").exists():
        adapter = load_student(work, "adapter", FeatureAdapter(model.config), llm).to(device)
        drafters["adapter"] = lambda prompt, answer: feature_rounds(model, adapter, prompt, answer)
    if (work / "adapter-paper.pt").exists():
        paper = load_student(work, "adapter-paper", make_paper_adapter(model, 0), llm).to(device)
        drafters["adapter-paper"] = lambda prompt, answer: plain_rounds(model, paper, prompt, answer)
    if (work / "medusa.pt").exists():
        medusa = load_student(work, "medusa", make_heads(model), llm).to(device)
        tree = choose_tree(model, medusa, work, TREE_NODES)
        drafters["medusa"] = lambda prompt, answer: medusa_rounds(tree, guess_answer(model, medusa, prompt, answer), answer)
        drafters["medusa-chain"] = lambda prompt, answer: medusa_rounds(CHAIN, guess_answer(model, medusa, prompt, answer), answer)
    if not drafters:
        raise InputError(f"{work} has no drafter; run train_adapter.py, train_paper_adapter.py or train_medusa.py first")
    return drafters


def mean(lengths: list[int]) -> float:
    """Mean accept length; 1 without verification."""
    return round(sum(lengths) / len(lengths), 3) if lengths else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    add_base(parser)
    parser.add_argument("--prompts", type=Path, default=DEFAULT_PROMPTS, help="JSON lines with messages or prompt (default: the held-out ones)")
    parser.add_argument("--out", type=Path, default=RESULTS / "drafters.json", help="default: docs/results/training/drafters.json")
    parser.add_argument("--max-new", type=int, default=128, help="maximum number of tokens of an answer (default: 128)")
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.base:
        encoder, model = BaseEncoder(args.base), load_base(args.base, args.split, args.device, BASE_TOKENS)
        stop = model.stop
    else:
        encoder, model = own_encoder(args.work), load_llm_checkpoint(args.work)
        stop = stop_tokens(encoder.tokenizer)
    drafters, prompts = load_drafters(model, args.work), read_prompts(args.prompts)
    pairs = [(prompt, encoder.prompt(prompt["messages"])) for prompt in prompts]
    room = model.config.max_position_embeddings - args.max_new
    pairs = [(prompt, ids) for prompt, ids in pairs if len(ids) <= room]
    if not pairs:
        raise InputError(f"no prompt of {args.prompts} and its answer fit the model's context; lower --max-new")
    answers = answer_all(model, [ids for _, ids in pairs], args.max_new, stop)
    accept: dict[str, dict[str, float]] = {}
    for name, drafter in drafters.items():
        rounds: dict[str, list[int]] = {"all": []}
        for (prompt, ids), answer in zip(pairs, answers, strict=True):
            found = drafter(ids, answer)
            rounds["all"] += found
            rounds.setdefault(prompt["task"], []).extend(found)
        accept[name] = {task: mean(lengths) for task, lengths in rounds.items()}
    result = {"eta": ETA, "longestDraft": LONGEST, "answers": len(answers), "acceptLength": accept}
    write_json(args.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    run(main)
