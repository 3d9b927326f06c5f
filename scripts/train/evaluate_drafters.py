"""Compares the drafters of <work> on held-out prompts: adapter, adapter with features, Medusa's tree and chain.

    python scripts/train/evaluate_drafters.py [--work DIR] [--prompts FILE] [--out FILE]

Drafters without a checkpoint in <work> are left out. The LLM is <work>/llm.pt as export.py would write it; greedy
answers as evaluate.py makes them; accept length counts the bonus token, no drafting is 1.00. Medusa's tree is the one that
export_medusa.py writes. Prompt lookup has no weights: the engine's benchmark compares it.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch

from distil import fingerprint
from eagle import FeatureAdapter, draft_rounds, visible_features
from errors import InputError, run
from evaluate import DEFAULT_RESULT, answer_all, draft_choices, read_prompts, rounds_of
from export import SPLIT, load_llm_checkpoint, write_json
from export_medusa import choose_tree, guess_answer
from files import load_checkpoint
from generate import wire
from heldout_prompts import DEFAULT_OUT as DEFAULT_PROMPTS
from medusa import CHAIN, TREE_NODES, medusa_rounds
from model import Adapter, Llama
from paths import add_work
from tokenizer import END_OF_TEXT, IM_END, load_tokenizer, render
from train_adapter import make_adapter
from train_eagle import make_adapter as make_feature_adapter
from train_medusa import make_heads

ETA, LONGEST = 0.6, 8  # HAT Eq. 5; drafted tokens at most
Ids = list[int]
Drafter = Callable[[Ids, Ids], list[int]]  # (prompt, greedy answer) → accept length of each verification round


def load_student(work: Path, name: str, student: torch.nn.Module, llm: str) -> torch.nn.Module:
    """A student with the weights of <work>/<name>.pt, fp16 as exported, frozen; InputError if it is of another LLM."""
    state = load_checkpoint(work / f"{name}.pt")
    if state["llm"] != llm:
        raise InputError(f"{work / name}.pt was trained for another LLM checkpoint; train it again")
    student.load_state_dict({key: tensor.half().float() for key, tensor in state[name].items()})
    return student.requires_grad_(False).eval()


def plain_rounds(model: Llama, adapter: Adapter, prompt: Ids, answer: Ids) -> list[int]:
    """Rounds of the plain adapter."""
    return rounds_of(*draft_choices(model, adapter, prompt, answer), ETA, LONGEST)


@torch.no_grad()
def feature_rounds(model: Llama, adapter: FeatureAdapter, prompt: Ids, answer: Ids) -> list[int]:
    """Rounds of the adapter with features, which knows deep states of the last prompt position and of the answer only."""
    ids = torch.tensor([prompt + answer[:-1]])
    shallow = wire(model.shallow(ids, SPLIT))
    features = visible_features(model.model.norm(wire(model.deep(shallow, SPLIT))), len(prompt))
    matches, probabilities = [], []
    for states in adapter.roll_out(shallow, model.model.embed_tokens(ids), features, model.model.norm, LONGEST):
        best = model.head(states)[0, len(prompt) - 1 :].softmax(-1).max(-1)
        matches.append((best.indices == torch.tensor(answer)).tolist())
        probabilities.append(best.values.tolist())
    return draft_rounds(matches, probabilities, ETA)


def load_drafters(model: Llama, work: Path) -> dict[str, Drafter]:
    """Every drafter that has a checkpoint."""
    llm, drafters = fingerprint(model), {}
    if (work / "adapter.pt").exists():
        adapter = load_student(work, "adapter", make_adapter(model, 0), llm)
        drafters["adapter"] = lambda prompt, answer: plain_rounds(model, adapter, prompt, answer)
    if (work / "adapter-eagle.pt").exists():
        features = load_student(work, "adapter-eagle", make_feature_adapter(model, 0), llm)
        drafters["adapter-eagle"] = lambda prompt, answer: feature_rounds(model, features, prompt, answer)
    if (work / "medusa.pt").exists():
        medusa = load_student(work, "medusa", make_heads(model), llm)
        tree = choose_tree(model, medusa, work, TREE_NODES)
        drafters["medusa"] = lambda prompt, answer: medusa_rounds(tree, guess_answer(model, medusa, prompt, answer), answer)
        drafters["medusa-chain"] = lambda prompt, answer: medusa_rounds(CHAIN, guess_answer(model, medusa, prompt, answer), answer)
    if not drafters:
        raise InputError(f"{work} holds no drafter; run train_adapter.py, train_eagle.py or train_medusa.py first")
    return drafters


def mean(lengths: list[int]) -> float:
    """Mean accept length; 1 where nothing was verified."""
    return round(sum(lengths) / len(lengths), 3) if lengths else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--prompts", type=Path, default=DEFAULT_PROMPTS)
    parser.add_argument("--out", type=Path, default=DEFAULT_RESULT.with_name("drafters.json"))
    parser.add_argument("--max-new", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer, model = load_tokenizer(args.work), load_llm_checkpoint(args.work)
    drafters = load_drafters(model, args.work)
    prompts = read_prompts(args.prompts)
    encoded = [tokenizer.encode(render(prompt["messages"], add_generation_prompt=True)).ids for prompt in prompts]
    stop = {tokenizer.token_to_id(IM_END), tokenizer.token_to_id(END_OF_TEXT)}
    answers = answer_all(model, encoded, args.max_new, stop)
    accept: dict[str, dict[str, float]] = {}
    for name, drafter in drafters.items():
        rounds: dict[str, list[int]] = {"all": []}
        for prompt, ids, answer in zip(prompts, encoded, answers, strict=True):
            found = drafter(ids, answer)
            rounds["all"] += found
            rounds.setdefault(prompt["task"], []).extend(found)
        accept[name] = {task: mean(lengths) for task, lengths in rounds.items()}
    result = {"eta": ETA, "longestDraft": LONGEST, "answers": len(answers), "acceptLength": accept}
    write_json(args.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    run(main)
