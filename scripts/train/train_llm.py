"""Trains the demonstration LLM; resumes by itself from <work>/llm.pt.

    nice -n 10 python scripts/train/train_llm.py --minutes 55
    python scripts/train/train_llm.py --tokens 24000000        # the same without a clock

Writes <work>/llm.pt (weights, optimisers, position in the data, curve) and <work>/llm-curve.json. The schedule
follows the budget, in tokens or in minutes of training whichever is used up first; minutes count over restarts.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dataset import IGNORE, Batches, load_pieces, pack, to_batch
from errors import run
from files import load_checkpoint, save_checkpoint, write_atomically
from model import LlmConfig, Llama
from optimizer import make_optimizers, rate, set_rate
from paths import add_work

MUON_LR, ADAM_LR = 0.02, 0.004
GROUPS = ("sgd", "topical-chat", "story", "story-qa")
HELD_OUT_WINDOWS = 12  # per group, for the curve; evaluate.py uses all of them
CURVE_EVERY_S, HELD_OUT_EVERY_S, SAVE_EVERY_S = 10.0, 240.0, 60.0


def token_loss(model: Llama, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats over all tokens of [batch, time]; matrix products in bf16, weights in fp32."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


def held_out_batches(work: Path, context: int) -> dict[str, tuple[Tensor, Tensor]]:
    """A few fixed held-out windows per group, each (inputs, targets) [HELD_OUT_WINDOWS, context]."""
    batches = {}
    for group in GROUPS:
        windows = pack(load_pieces(work, "val", group, context + 1), context + 1, np.random.default_rng(0))
        batches[group] = to_batch(windows[:HELD_OUT_WINDOWS], context)
    return batches


@torch.no_grad()
def held_out_perplexity(model: Llama, batches: dict[str, tuple[Tensor, Tensor]]) -> dict[str, float]:
    """exp(mean loss per token) of each group, in fp32."""
    perplexity = {}
    for group, (inputs, targets) in batches.items():
        losses = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        perplexity[group] = round(math.exp(losses.item()), 3)
    return perplexity


class LlmTraining:
    """Model, optimisers, data position and curve of one run: all that a checkpoint holds."""

    def __init__(self, work: Path, batch: int, seed: int):
        self.path = work / "llm.pt"
        self.config = LlmConfig()
        self.model = Llama(self.config)
        self.model.initialise(seed)
        self.optimizers = make_optimizers(self.model, MUON_LR, ADAM_LR)
        self.batches = Batches(load_pieces(work, "train", None, self.config.max_position_embeddings + 1), 512, batch, seed)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.curve: list[dict] = []

    def resume(self) -> None:
        """Takes up <work>/llm.pt."""
        state = load_checkpoint(self.path)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        b = self.batches
        self.batches = Batches(b.pieces, b.context, b.batch, b.seed, state["epoch"], state["next_window"])
        self.step, self.tokens, self.seconds, self.curve = state["step"], state["tokens"], state["seconds"], state["curve"]

    def save(self) -> None:
        """Writes the checkpoint, then the curve."""
        state = {
            "config": self.config.to_dict(),
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "epoch": self.batches.epoch,
            "next_window": self.batches.next_window,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        save_checkpoint(self.path, state)
        write_atomically(self.path.with_name("llm-curve.json"), json.dumps(self.curve, indent=1).encode())

    def progress(self, max_tokens: float, max_seconds: float) -> float:
        """Share of the budget used, 0..1."""
        return min(1.0, max(self.tokens / max_tokens, self.seconds / max_seconds))


def train(training: LlmTraining, work: Path, max_tokens: float, max_seconds: float, compiled: bool) -> None:
    """Trains until the budget is used up, saving every minute and at the end."""
    loss_of = torch.compile(token_loss) if compiled else token_loss
    if compiled:  # outside the clock
        ids = torch.zeros(training.batches.batch, training.batches.context, dtype=torch.long)
        loss_of(training.model, ids, ids).backward()
        training.model.zero_grad(set_to_none=True)
    held_out = held_out_batches(work, training.config.max_position_embeddings)
    last = {"curve": training.seconds, "held_out": training.seconds, "save": training.seconds}
    losses: list[float] = []
    tokens_before = training.tokens
    while (progress := training.progress(max_tokens, max_seconds)) < 1:
        started = time.perf_counter()
        set_rate(training.optimizers, rate(progress))
        inputs, targets = training.batches.next()
        loss = loss_of(training.model, inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        for optimizer in training.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        training.step += 1
        training.tokens += int((targets != IGNORE).sum())
        training.seconds += time.perf_counter() - started
        if training.seconds - last["curve"] >= CURVE_EVERY_S:
            span_s = training.seconds - last["curve"]
            point = {
                "step": training.step,
                "tokens": training.tokens,
                "seconds": round(training.seconds, 1),
                "loss": round(sum(losses) / len(losses), 4),
                "tokensPerS": round((training.tokens - tokens_before) / span_s),
                "rate": round(rate(progress), 4),
            }
            if training.seconds - last["held_out"] >= HELD_OUT_EVERY_S:
                point["heldOutPerplexity"] = held_out_perplexity(training.model, held_out)
                last["held_out"] = training.seconds
            training.curve.append(point)
            print(json.dumps(point), flush=True)
            last["curve"], losses, tokens_before = training.seconds, [], training.tokens
        if training.seconds - last["save"] >= SAVE_EVERY_S:
            training.save()
            last["save"] = training.seconds
    training.curve.append(
        {
            "step": training.step,
            "tokens": training.tokens,
            "seconds": round(training.seconds, 1),
            "heldOutPerplexity": held_out_perplexity(training.model, held_out),
        }
    )
    training.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--tokens", type=float, default=25e6)
    parser.add_argument("--batch", type=int, default=8, help="windows of 512 tokens per step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (no C++ compiler; about half as fast)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    training = LlmTraining(args.work, args.batch, args.seed)
    if training.path.exists():
        training.resume()
        print(json.dumps({"resumedAtStep": training.step}), flush=True)
    train(training, args.work, args.tokens, args.minutes * 60, not args.no_compile)
    print(json.dumps(training.curve[-1]))


if __name__ == "__main__":
    run(main)
