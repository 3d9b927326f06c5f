"""Sketch tuning, step 2: a reward model R(x, r) from the preference pairs, −log σ(R(x, r_w) − R(x, r_l)) (PICE §IV-D).

    python scripts/train/sketch_reward.py                       # <work>/sketch-pairs.json → <work>/sketch-reward.pt
    python scripts/train/sketch_reward.py --epochs 6 --layers 4

R is the LLM with a scalar head, read at the sketch's last token. Only its last layers are trained. The states of the
layers below are computed once for all epochs, and once for policy and reward in the next step. Some pairs are held out:
"heldOutAccuracy" is the share of them that R orders correctly, "heldOutShorterWins" the share for preferring the
shorter sketch. R is scaled to mean 0 and variance 1 over the training sketches, so that γ weighs it against nats. It
takes a minute or two and does not resume.
"""

import argparse
import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from base import fingerprint
from errors import InputError, run
from export import load_llm_checkpoint
from files import load_checkpoint, save_checkpoint
from model import Llama
from paths import add_seed, add_threads, add_work
from sketch_pairs import PAIRS, pairs_in, read_scored
from sketch_score import Pair

REWARD = "sketch-reward.pt"
LAYERS, EPOCHS, PAIRS_PER_STEP = 3, 6, 8
ADAM_LR, WEIGHT_DECAY = 1e-3, 0.1
HELD_OUT_PERCENT = 15


class RewardModel(nn.Module):
    """The last layers of an LLM, the final norm and a scalar head; the layers below are the LLM's own, `lower`."""

    def __init__(self, llm: Llama, layers: int):
        super().__init__()
        self.first = llm.config.num_hidden_layers - layers
        self.layers = copy.deepcopy(llm.model.layers[self.first :]).requires_grad_(True)
        self.norm = copy.deepcopy(llm.model.norm).requires_grad_(True)
        self.value = nn.Linear(llm.config.hidden_size, 1, bias=False)
        nn.init.zeros_(self.value.weight)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("deviation", torch.ones(()))
        self.register_buffer("cos", llm.cos, persistent=False)
        self.register_buffer("sin", llm.sin, persistent=False)

    def raw(self, lower: Tensor, ends: Tensor) -> Tensor:
        """States after the LLM's first layers [batch, time, hidden], index of each last token [batch] → score [batch]."""
        cos, sin, x = self.cos[: lower.shape[1]], self.sin[: lower.shape[1]], lower
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.value(self.norm(x[torch.arange(len(x)), ends]))[:, 0]

    def forward(self, lower: Tensor, ends: Tensor) -> Tensor:
        """As `raw`, scaled."""
        return (self.raw(lower, ends) - self.mean) / self.deviation


def padded(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """(ids int64 [batch, longest], zero after each end; index of each last token [batch])."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(sequence) for sequence in sequences], batch_first=True)
    return ids, torch.tensor([len(sequence) - 1 for sequence in sequences])


@dataclass(frozen=True)
class Batch:
    """Pairs as states below the trained layers, fp16 [2 · pairs, time, hidden]: the better sketches first."""

    lower: Tensor
    ends: Tensor


@torch.no_grad()
def to_batches(llm: Llama, first: int, pairs: Sequence[Pair]) -> list[Batch]:
    """Batches of pairs of like length."""
    ordered = sorted(pairs, key=lambda pair: len(pair.prompt))
    batches = []
    for at in range(0, len(ordered), PAIRS_PER_STEP):
        group = ordered[at : at + PAIRS_PER_STEP]
        ids, ends = padded([pair.prompt + pair.better for pair in group] + [pair.prompt + pair.worse for pair in group])
        batches.append(Batch(llm.shallow(ids, first).half(), ends))
    return batches


def preference_loss(reward: RewardModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """(Bradley–Terry loss, which pairs are ordered correctly [pairs])."""
    better, worse = reward.raw(batch.lower.float(), batch.ends).chunk(2)
    return -F.logsigmoid(better - worse).mean(), better > worse


@torch.no_grad()
def accuracy(reward: RewardModel, batches: Sequence[Batch]) -> float:
    """Share of the pairs that are ordered correctly."""
    return torch.cat([preference_loss(reward, batch)[1] for batch in batches]).float().mean().item()


def shorter_wins(pairs: Sequence[Pair]) -> float:
    """Share of the pairs whose better sketch is the shorter; a tie counts half."""
    return float(np.mean([0.5 * (1 + np.sign(len(pair.worse) - len(pair.better))) for pair in pairs]))


def split_pairs(pairs: Sequence[Pair], seed: int) -> tuple[list[Pair], list[Pair]]:
    """(to train on, held out), at random; each prompt has one pair. InputError for fewer than two."""
    if len(pairs) < 2:
        raise InputError(f"{len(pairs)} pairs are too few for training and held-out sets; run sketch_pairs.py for longer")
    order = np.random.default_rng(seed).permutation(len(pairs))
    held = max(1, len(pairs) * HELD_OUT_PERCENT // 100)
    return [pairs[index] for index in order[held:]], [pairs[index] for index in order[:held]]


def train_reward(llm: Llama, pairs: Sequence[Pair], layers: int, epochs: int, seed: int) -> tuple[RewardModel, dict]:
    """(the trained, scaled model, its figures)."""
    training, held_out = split_pairs(pairs, seed)
    reward = RewardModel(llm, layers)
    batches, held_batches = to_batches(llm, reward.first, training), to_batches(llm, reward.first, held_out)
    optimizer = torch.optim.AdamW(reward.parameters(), ADAM_LR, weight_decay=WEIGHT_DECAY)
    rng, curve = np.random.default_rng(seed), []
    for epoch in range(epochs):
        losses = []
        for step, index in enumerate(rng.permutation(len(batches))):
            for group in optimizer.param_groups:  # linear to zero
                group["lr"] = ADAM_LR * (1 - (epoch + step / len(batches)) / epochs)
            loss, _ = preference_loss(reward, batches[index])
            loss.backward()
            nn.utils.clip_grad_norm_(reward.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        curve.append({"epoch": epoch + 1, "loss": round(float(np.mean(losses)), 4), "heldOutAccuracy": round(accuracy(reward, held_batches), 4)})
        print(json.dumps(curve[-1]), flush=True)
    with torch.no_grad():
        scores = torch.cat([reward.raw(batch.lower.float(), batch.ends) for batch in batches])
    reward.mean.copy_(scores.mean())
    reward.deviation.copy_(scores.std().clamp(min=1e-6))
    return reward, {
        "pairs": len(training),
        "heldOutPairs": len(held_out),
        "accuracy": round(accuracy(reward, batches), 4),
        "heldOutAccuracy": curve[-1]["heldOutAccuracy"] if curve else None,
        "heldOutShorterWins": round(shorter_wins(held_out), 4),
        "curve": curve,
    }


def load_reward(work: Path, llm: Llama) -> RewardModel:
    """The reward model of <work>, frozen; InputError if it was made for another LLM."""
    path = work / REWARD
    state = load_checkpoint(path)
    if state["llm"] != fingerprint(llm):
        raise InputError(f"{path} was trained for another LLM checkpoint; run sketch_pairs.py and sketch_reward.py again")
    reward = RewardModel(llm, state["layers"])
    reward.load_state_dict(state["reward"])
    return reward.requires_grad_(False).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--layers", type=int, default=LAYERS, help=f"last layers to train (default: {LAYERS})")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"default: {EPOCHS}")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    llm = load_llm_checkpoint(args.work)
    if not 1 <= args.layers <= llm.config.num_hidden_layers:
        raise InputError(f"--layers {args.layers}: the LLM has {llm.config.num_hidden_layers}")
    if args.epochs < 1:
        raise InputError("--epochs must be at least 1")
    scored = read_scored(args.work / PAIRS)
    if scored["llm"] != fingerprint(llm):
        raise InputError(f"{args.work / PAIRS} was created with another LLM checkpoint; delete it and run sketch_pairs.py again")
    reward, figures = train_reward(llm, pairs_in(scored), args.layers, args.epochs, args.seed)
    state = {"llm": scored["llm"], "layers": args.layers, "reward": reward.state_dict(), "figures": figures}
    save_checkpoint(args.work / REWARD, state)
    print(json.dumps({name: value for name, value in figures.items() if name != "curve"}))


if __name__ == "__main__":
    run(main)
