"""Trains the LLM or a small model; resumes by itself from <work>/<name>.pt.

    nice -n 10 python scripts/train/train_llm.py --minutes 55
    python scripts/train/train_llm.py --tokens 24000000        # without a time limit
    python scripts/train/train_llm.py --tasks --shape slm-deep --name slm-deep --minutes 20

Writes <work>/<name>.pt (weights, optimisers, position in the data, curve) and <work>/<name>-curve.json. The schedule
follows the budget of tokens or minutes, whichever ends first; minutes are summed over restarts. Checkpoint and curve record the
settings of the run, which can be resumed only with the same ones. A last phase at a longer context is a separate run: --start NAME --context 2048 --batch 2.

--start takes a run of the work folder or an exported model such as models/demo/llm, so that a release can be trained further without
its checkpoints; the paper's adapter is then the early exit's Λ. --repeat gives tasks a weight: 3 counts an example three times,
0.2 takes a fifth of the examples.

--early-exit W prepares the LLM for drafting: with weight W, an adapter Λ on its first layer learns the output of the whole
model, and the first layer and the head are trained with it (an early-exit loss as in LayerSkip, arXiv:2404.16710).
train_adapter.py continues from this Λ. --copying adds a window for learning to copy (copying.py) to every step.
"""

import argparse
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from copying import copying_window
from curves import Curve, curve_path, write_curve
from dataset import CHATS, IGNORE, Batches, add_tasks, load_groups, pack, to_batch
from errors import InputError, run
from export import load_exported, load_exported_adapter
from files import load_checkpoint, save_checkpoint
from model import SHAPES, SPLIT, Adapter, LlmConfig, Llama
from optimizer import make_optimizers, rate, set_rate
from paths import add_seed, add_threads, add_work
from tokenizer import load_tokenizer

MUON_LR, ADAM_LR = 0.02, 0.004
PAPER_ADAPTER = "adapter-paper"  # in an exported folder
EXIT_EVERY = 4  # one window in so many also trains the early exit, whose head is a fifth of a step's work
HELD_OUT_TOKENS = 3072  # per task, for the curve; evaluate.py uses all of them
TOKENS = 25e6  # of a run without any budget
CURVE_EVERY_S, HELD_OUT_EVERY_S, SAVE_EVERY_S = 10.0, 600.0, 60.0


def token_loss(model: Llama, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats over all tokens of [batch, time]; matrix products in bf16, weights in fp32."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


def early_exit_loss(model: Llama, adapter: Adapter, weight: float, inputs: Tensor, targets: Tensor) -> Tensor:
    """token_loss plus `weight` times the cross-entropy of the draft model's distribution against the whole model's."""
    rows = max(2, len(inputs) // EXIT_EVERY)  # of small batches too one that is no copying window
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shallow = model.shallow(inputs, SPLIT)
        logits = model.head(model.deep(shallow, SPLIT)).float()
        log_p_s = model.head(adapter(shallow[:rows])).float().log_softmax(-1)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
    learnt = (targets[:rows] != IGNORE).float()
    exit_loss = -(logits[:rows].detach().softmax(-1) * log_p_s).sum(-1)
    return loss + weight * (exit_loss * learnt).sum() / learnt.sum().clamp(min=1)


def held_out_batches(work: Path, context: int, file: str) -> dict[str, tuple[Tensor, Tensor]]:
    """A few fixed held-out windows per task, each (inputs, targets) [HELD_OUT_TOKENS / context, context]."""
    batches = {}
    for task, pieces in load_groups(work, "val", context + 1, file).items():
        windows = pack(pieces, context + 1, np.random.default_rng(0))
        batches[task] = to_batch(windows[: max(1, HELD_OUT_TOKENS // context)], context)
    return batches


@torch.no_grad()
def held_out_perplexity(model: Llama, batches: dict[str, tuple[Tensor, Tensor]]) -> dict[str, float]:
    """exp(mean loss per token) of each task, in fp32."""
    perplexity = {}
    for task, (inputs, targets) in batches.items():
        losses = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        perplexity[task] = round(math.exp(losses.item()), 3)
    return perplexity


@dataclass(frozen=True)
class Settings:
    """What a run is started with, beside its shape: token file, run to begin from, losses, examples that count more, share of the rates."""

    file: str = CHATS
    start: str | None = None
    early_exit: float = 0.0
    copying: bool = False
    repeat: dict[str, float] = field(default_factory=dict)
    peak: float = 1.0


def weighted_pieces(work: Path, context: int, settings: Settings, seed: int) -> list[np.ndarray]:
    """The examples to train on, those of a task as often as its weight says; of a fraction, some at random."""
    groups = load_groups(work, "train", context + 1, settings.file)
    if unknown := sorted(set(settings.repeat) - set(groups)):
        raise InputError(f"{work / settings.file} has no train examples of {', '.join(unknown)} with at most {context + 1} tokens")
    rng, pieces = np.random.default_rng([seed, 0]), []
    for task, group in groups.items():
        whole, fraction = divmod(settings.repeat.get(task, 1), 1)
        some = rng.permutation(len(group))[: round(fraction * len(group))]
        pieces += group * int(whole) + [group[index] for index in some]
    if not pieces:
        raise InputError(f"{work / settings.file} has no train examples of at most {context + 1} tokens; create the file again")
    return pieces


def load_exported_state(folder: Path) -> dict:
    """An exported model as a checkpoint's weights, with the paper's adapter as the early exit's Λ where the folder has one."""
    model = load_exported(folder)
    state = {"config": model.config.to_dict(), "model": model.state_dict()}
    if (folder / PAPER_ADAPTER).is_dir():
        state["adapter"] = load_exported_adapter(folder, model.config, PAPER_ADAPTER).state_dict()
    return state


class LlmTraining:
    """Model, optimisers, data position and curve of one run: the content of a checkpoint."""

    def __init__(
        self,
        work: Path,
        batch: int,
        seed: int,
        config: LlmConfig = SHAPES["llm"],
        name: str = "llm",
        settings: Settings = Settings(),
    ):
        self.path, self.config, self.settings = work / f"{name}.pt", config, settings
        self.model = Llama(self.config)
        self.model.initialise(seed)
        self.adapter = Adapter(self.config)
        self.adapter.initialise(seed)
        trained = nn.ModuleList((self.model, self.adapter)) if settings.early_exit else self.model
        self.optimizers = make_optimizers(trained, MUON_LR, ADAM_LR)
        context = config.max_position_embeddings
        self.batches = Batches(weighted_pieces(work, context, settings, seed), context, batch, seed)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.curve: list[dict] = []
        self.run = {
            "start": settings.start,
            "examples": settings.file,
            "context": context,
            "batch": batch,
            "earlyExit": settings.early_exit,
            "copying": settings.copying,
            "repeat": settings.repeat,
            "peak": settings.peak,
        }

    def start_from(self, path: Path) -> None:
        """Takes the weights of another run or an exported folder, whose context may differ; InputError for another shape."""
        state = load_exported_state(path) if path.is_dir() else load_checkpoint(path)
        if state["config"] | {"max_position_embeddings": self.config.max_position_embeddings} != self.config.to_dict():
            raise InputError(f"{path} has another shape than this run; give the --shape that it was trained with")
        self.model.load_state_dict(state["model"])
        if "adapter" in state:
            self.adapter.load_state_dict(state["adapter"])

    def resume(self) -> None:
        """Resumes from the checkpoint; InputError if its shape, context or another setting differs."""
        state = load_checkpoint(self.path)
        if state["config"] != self.config.to_dict():
            raise InputError(f"{self.path} has another shape or context; give the run another --name, or delete it to restart")
        if changed := [name for name, value in self.run.items() if state["run"].get(name) != value]:
            raise InputError(f"{self.path} was started with another {', '.join(changed)}; give the same, or the run another --name")
        self.model.load_state_dict(state["model"])
        if self.settings.early_exit:
            self.adapter.load_state_dict(state["adapter"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        b = self.batches
        self.batches = Batches(b.pieces, b.context, b.batch, b.seed, state["epoch"], state["next_window"])
        self.step, self.tokens, self.seconds, self.curve = state["step"], state["tokens"], state["seconds"], state["curve"]

    def save(self) -> None:
        """Writes the checkpoint, then the curve."""
        state = {
            "config": self.config.to_dict(),
            "run": self.run,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "epoch": self.batches.epoch,
            "next_window": self.batches.next_window,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        if self.settings.early_exit:
            state["adapter"] = self.adapter.state_dict()
        save_checkpoint(self.path, state)
        write_curve(curve_path(self.path), Curve(self.curve, self.run))

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """(inputs, targets) of the next step, int64 [batch (and one), context]."""
        inputs, targets = self.batches.next()
        if not self.settings.copying:
            return inputs, targets
        copies = copying_window(self.batches.pieces, self.batches.context, self.batches.seed, self.step)
        return torch.cat((copies[0], inputs)), torch.cat((copies[1], targets))  # first, where the early exit sees it

    def loss_of(self, compiled: bool) -> Callable[[Tensor, Tensor], Tensor]:
        """(inputs, targets) → loss of a batch."""
        plain, joint = (torch.compile(f) if compiled else f for f in (token_loss, early_exit_loss))
        if weight := self.settings.early_exit:
            return lambda inputs, targets: joint(self.model, self.adapter, weight, inputs, targets)
        return lambda inputs, targets: plain(self.model, inputs, targets)

    def progress(self, max_tokens: float, max_seconds: float) -> float:
        """Share of the budget used, 0..1."""
        if self.tokens >= max_tokens or self.seconds >= max_seconds:
            return 1.0
        return max(self.tokens / max_tokens, self.seconds / max_seconds)


def train(training: LlmTraining, work: Path, max_tokens: float, max_seconds: float, compiled: bool) -> None:
    """Trains until the budget is used up, saving every minute and at the end."""
    loss_of, peak = training.loss_of(compiled), training.settings.peak
    if compiled:  # outside the clock
        ids = torch.zeros(training.batches.batch + training.settings.copying, training.batches.context, dtype=torch.long)
        loss_of(ids, ids).backward()
        for optimizer in training.optimizers:
            optimizer.zero_grad(set_to_none=True)
    held_out = held_out_batches(work, training.config.max_position_embeddings, training.settings.file)
    last = {"curve": training.seconds, "held_out": training.seconds, "save": training.seconds}
    losses: list[float] = []
    tokens_before = training.tokens
    while (progress := training.progress(max_tokens, max_seconds)) < 1:
        started = time.perf_counter()
        set_rate(training.optimizers, peak * rate(progress))
        inputs, targets = training.next_batch()
        loss = loss_of(inputs, targets)
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
                "rate": round(peak * rate(progress), 4),
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
    final = {
        "step": training.step,
        "tokens": training.tokens,
        "seconds": round(training.seconds, 1),
        "heldOutPerplexity": held_out_perplexity(training.model, held_out),
    }
    if training.curve[-1:] != [final]:  # a finished run that is started again adds nothing
        training.curve.append(final)
    training.save()


def task_weight(text: str) -> tuple[str, float]:
    """'expansion=0.5' → ('expansion', 0.5)."""
    task, _, times = text.partition("=")
    if not (task and re.fullmatch(r"\d+(\.\d+)?", times)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like expansion=6 or expansion=0.5")
    return task, float(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    add_tasks(parser)
    parser.add_argument("--shape", choices=SHAPES, default="llm", help="model shape (default: llm)")
    parser.add_argument("--name", default="llm", help="name of the checkpoint (default: llm)")
    parser.add_argument("--start", metavar="NAME", help="begin with the weights of <work>/NAME.pt, or of an exported folder")
    parser.add_argument("--early-exit", type=float, default=0.0, metavar="W", help="weight of the early-exit loss (default: 0, none)")
    parser.add_argument("--copying", action="store_true", help="add a window for learning to copy to every step")
    parser.add_argument("--repeat", type=task_weight, nargs="+", default=[], metavar="TASK=N", help="weight N of a task's examples, such as 3 or 0.2")
    parser.add_argument("--context", type=int, default=512, help="tokens per window (default: 512)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="training time in minutes (default: no limit)")
    parser.add_argument("--tokens", type=float, help=f"training tokens, including repeats (default: {TOKENS:g}, with --minutes no limit)")
    parser.add_argument("--peak", type=float, default=1.0, metavar="SHARE", help="share of the usual rates; lower it for a short run that continues another (default: 1)")
    parser.add_argument("--batch", type=int, default=8, help="windows per step (default: 8)")
    add_seed(parser)
    add_threads(parser)
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (no C++ compiler; about half as fast)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    vocabulary = load_tokenizer(args.work).get_vocab_size()
    config = replace(SHAPES[args.shape], vocab_size=vocabulary, max_position_embeddings=args.context)
    settings = Settings(args.file, args.start, args.early_exit, args.copying, dict(args.repeat), args.peak)
    training = LlmTraining(args.work, args.batch, args.seed, config, args.name, settings)
    if training.path.exists():
        training.resume()
        print(json.dumps({"resumedAtStep": training.step}), flush=True)
    elif args.start:
        training.start_from(Path(args.start) if Path(args.start).is_dir() else args.work / f"{args.start}.pt")
    tokens = (TOKENS if math.isinf(args.minutes) else math.inf) if args.tokens is None else args.tokens
    train(training, args.work, tokens, args.minutes * 60, not args.no_compile)
    print(json.dumps(training.curve[-1]))


if __name__ == "__main__":
    run(main)
