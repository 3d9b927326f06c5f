"""Trains the LLM or a small model; resumes by itself from <work>/<name>.pt.

    nice -n 10 python scripts/train/train_llm.py --minutes 55
    python scripts/train/train_llm.py --tokens 24000000        # without a time limit
    python scripts/train/train_llm.py --shape slm-deep --name slm-deep --minutes 20

Writes <work>/<name>.pt (weights, optimisers, position in the data, curve) and <work>/<name>-curve.json. The schedule
follows the budget of tokens or minutes, whichever ends first; minutes are summed over restarts. Checkpoint and curve record the
settings of the run, which can be resumed only with the same ones. A step has
--batch · --context positions of examples of about one length.

--start takes a run of the work folder or an exported model such as models/demo/llm, so that a release can be trained further without
its checkpoints; the paper's adapter is then the early exit's Λ. --repeat gives tasks a weight: 3 counts an example three times,
0.2 takes a fifth of the examples.

--early-exit W prepares the LLM for drafting: with weight W, an adapter Λ on its first layer learns the output of the whole
model, and the first layer and the head are trained with it (an early-exit loss as in LayerSkip, arXiv:2404.16710).
train_adapter.py continues from this Λ. --teacher NAME TASK … (once per teacher) takes half of these tasks' loss against the distribution of another
run or exported folder, so that what one model forgot and another knows is joined. Every step has examples of each teacher. --copying adds a window for learning to copy (copying.py) to every step.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from copying import copying_window
from curves import Curve, curve_path, write_curve
from dataset import IGNORE, TASKS, Batches, load_groups, some_of, to_batch, width_of
from errors import InputError, run
from export import load_weights, weights_path
from files import load_checkpoint, save_checkpoint
from model import SHAPES, SPLIT, Adapter, LlmConfig, Llama
from optimizer import make_optimizers, rate, set_rate
from paths import add_repeat, add_seed, add_threads, add_work
from tokenizer import load_tokenizer

MUON_LR, ADAM_LR = 0.02, 0.004
EXIT_EVERY = 4  # one row in so many also trains the early exit, whose head is a fifth of a step's work
HELD_OUT_TOKENS = 3072  # per task, for the curve; evaluate.py uses all of them
TOKENS = 25e6  # of a run without any budget
CURVE_EVERY_S, HELD_OUT_EVERY_S, SAVE_EVERY_S = 10.0, 600.0, 60.0


def mean_loss(model: Llama, exit_loss: tuple[Adapter, float] | None, teacher: Llama | None, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats over the tokens to learn of [batch, time]; matrix products in bf16, weights in fp32.

    With a teacher half of it is against the teacher's distribution. With an early exit (Λ, weight), `weight` times the
    cross-entropy of the draft model's distribution against the whole model's, on a part of the rows, is added.
    """
    learnt = targets != IGNORE
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shallow = model.shallow(inputs, SPLIT)
        log_p = model.head(model.deep(shallow, SPLIT)[learnt]).float().log_softmax(-1)
    loss = F.nll_loss(log_p, targets[learnt])
    if teacher:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            expected = teacher.head(teacher.deep(teacher.shallow(inputs, 0), 0)[learnt]).float().softmax(-1)
        loss = (loss - (expected * log_p).sum(-1).mean()) / 2
    if exit_loss and (some := learnt[: max(2, len(inputs) // EXIT_EVERY)]).any():  # of few rows too one that is no copying window
        adapter, weight = exit_loss
        with torch.autocast("cpu", dtype=torch.bfloat16):
            log_p_s = model.head(adapter(shallow[: len(some)])[some]).float().log_softmax(-1)
        loss = loss - weight * (log_p[: len(log_p_s)].detach().exp() * log_p_s).sum(-1).mean()
    return loss


def held_out_batches(work: Path, context: int) -> dict[str, tuple[Tensor, Tensor]]:
    """A few fixed held-out examples per task, each (inputs, targets) [examples, the longest's positions]."""
    groups = load_groups(work, "val", context + 1)
    chosen = {task: some_of(pieces, HELD_OUT_TOKENS) for task, pieces in groups.items()}
    return {task: to_batch(rows, min(width_of(rows), context)) for task, rows in chosen.items()}


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
    """What a run is started with, beside its shape: run to begin from, losses, examples that count more, share of the rates."""

    start: str | None = None
    early_exit: float = 0.0
    copying: bool = False
    repeat: dict[str, float] = field(default_factory=dict)
    peak: float = 1.0
    teachers: tuple[tuple[str, ...], ...] = ()  # each a run or exported folder, and the tasks it teaches


def weighted_pieces(work: Path, context: int, settings: Settings, seed: int) -> list[list[np.ndarray]]:
    """The examples to train on, of each teacher and then those without one, a task's as often as its weight says; of a fraction,
    some at random."""
    groups = load_groups(work, "train", context + 1)
    if unknown := sorted({*settings.repeat, *(task for _, *tasks in settings.teachers for task in tasks)} - set(groups)):
        raise InputError(f"{work / TASKS} has no train examples of {', '.join(unknown)} with at most {context + 1} tokens")
    rng, streams = np.random.default_rng([seed, 0]), [[] for _ in range(len(settings.teachers) + 1)]
    for task, group in groups.items():
        whole, fraction = divmod(settings.repeat.get(task, 1), 1)
        some = rng.permutation(len(group))[: round(fraction * len(group))]
        teacher = next((number for number, (_, *tasks) in enumerate(settings.teachers) if task in tasks), -1)
        streams[teacher] += group * int(whole) + [group[index] for index in some]
    if not any(streams):
        raise InputError(f"{work / TASKS} has no train examples of at most {context + 1} tokens; create the file again")
    return streams


class LlmTraining:
    """Model, optimisers, data position and curve of one run: the content of a checkpoint."""

    def __init__(
        self,
        work: Path,
        batch: float,
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
        streams = weighted_pieces(work, context, settings, seed)
        positions = [sum(map(len, pieces)) for pieces in streams]
        self.streams = [
            Batches(pieces, context, batch * count / sum(positions), seed) if pieces else None
            for pieces, count in zip(streams, positions, strict=True)
        ]  # of a step's positions each has its share
        self.teachers = [self.teacher(weights_path(work, name)) for name, *_ in settings.teachers] + [None]
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.curve: list[dict] = []
        self.run = {
            "start": settings.start,
            "examples": TASKS,
            "context": context,
            "batch": batch,
            "earlyExit": settings.early_exit,
            "copying": settings.copying,
            "repeat": settings.repeat,
            "peak": settings.peak,
            "teachers": [list(teacher) for teacher in settings.teachers],
        }

    def teacher(self, path: Path) -> Llama:
        """A frozen model of the same shape; InputError for another."""
        teacher = Llama(self.config).requires_grad_(False)
        teacher.load_state_dict(self.weights_of(path)["model"])
        return teacher

    def weights_of(self, path: Path) -> dict:
        """The weights of another run or an exported folder, whose context may differ; InputError for another shape."""
        state = load_weights(path)
        if state["config"] | {"max_position_embeddings": self.config.max_position_embeddings} != self.config.to_dict():
            raise InputError(f"{path} has another shape than this run; give the --shape that it was trained with")
        return state

    def start_from(self, path: Path) -> None:
        """Takes the weights of another run or an exported folder."""
        state = self.weights_of(path)
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
        for stream, position in zip(self.streams, state["positions"], strict=True):
            if stream:
                stream.go_to(*position)
        self.step, self.tokens, self.seconds, self.curve = state["step"], state["tokens"], state["seconds"], state["curve"]

    def save(self) -> None:
        """Writes the checkpoint, then the curve."""
        state = {
            "config": self.config.to_dict(),
            "run": self.run,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "positions": [stream and (stream.epoch, stream.next_batch) for stream in self.streams],
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        if self.settings.early_exit:
            state["adapter"] = self.adapter.state_dict()
        save_checkpoint(self.path, state)
        write_curve(curve_path(self.path), Curve(self.curve, self.run))

    def next_batches(self) -> list[tuple[Llama | None, Tensor, Tensor]]:
        """(teacher, inputs, targets) of every stream for the next step, int64 [examples (and a window to copy), positions]."""
        batches = []
        for stream, teacher in zip(self.streams, self.teachers, strict=True):
            if stream:
                inputs, targets = stream.next()
                if self.settings.copying and not teacher:
                    copies = copying_window(stream.pieces, inputs.shape[1], stream.seed, self.step)
                    inputs, targets = torch.cat((copies[0], inputs)), torch.cat((copies[1], targets))  # first, where the early exit sees it
                batches.append((teacher, inputs, targets))
        return batches

    def backward(self) -> tuple[float, int]:
        """(summed loss, tokens learnt) of the next step, whose gradients are added."""
        exit_loss = (self.adapter, self.settings.early_exit) if self.settings.early_exit else None
        batches, total, tokens = self.next_batches(), 0.0, 0
        positions = sum(targets.numel() for _, _, targets in batches)
        for teacher, inputs, targets in batches:
            loss, learnt = mean_loss(self.model, exit_loss, teacher, inputs, targets), int((targets != IGNORE).sum())
            (loss * learnt / positions).backward()  # a batch of short answers to long prompts weighs as much as it teaches
            total, tokens = total + loss.item() * learnt, tokens + learnt
        return total, tokens

    def progress(self, max_tokens: float, max_seconds: float) -> float:
        """Share of the budget used, 0..1."""
        if self.tokens >= max_tokens or self.seconds >= max_seconds:
            return 1.0
        return max(self.tokens / max_tokens, self.seconds / max_seconds)


def train(training: LlmTraining, work: Path, max_tokens: float, max_seconds: float) -> None:
    """Trains until the budget is used up, saving every minute and at the end."""
    peak = training.settings.peak
    held_out = held_out_batches(work, training.config.max_position_embeddings)
    last = {"curve": training.seconds, "held_out": training.seconds, "save": training.seconds}
    losses: list[tuple[float, int]] = []  # of a step, and the tokens it learnt
    tokens_before = training.tokens
    while (progress := training.progress(max_tokens, max_seconds)) < 1:
        started = time.perf_counter()
        set_rate(training.optimizers, peak * rate(progress))
        losses.append(training.backward())
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        for optimizer in training.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        training.step += 1
        training.tokens += losses[-1][1]
        training.seconds += time.perf_counter() - started
        if training.seconds - last["curve"] >= CURVE_EVERY_S:
            span_s = training.seconds - last["curve"]
            point = {
                "step": training.step,
                "tokens": training.tokens,
                "seconds": round(training.seconds, 1),
                "loss": round(sum(loss for loss, _ in losses) / sum(learnt for _, learnt in losses), 4),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--shape", choices=SHAPES, default="llm", help="model shape (default: llm)")
    parser.add_argument("--name", default="llm", help="name of the checkpoint (default: llm)")
    parser.add_argument("--start", metavar="NAME", help="begin with the weights of <work>/NAME.pt, or of an exported folder")
    parser.add_argument("--early-exit", type=float, default=0.0, metavar="W", help="weight of the early-exit loss (default: 0, none)")
    parser.add_argument("--teacher", nargs="+", action="append", default=[], metavar=("NAME", "TASK"), help="a run or exported folder whose distribution these tasks' examples learn")
    parser.add_argument("--copying", action="store_true", help="add a window for learning to copy to every step")
    add_repeat(parser)
    parser.add_argument("--context", type=int, default=512, help="positions of the longest example (default: 512)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="training time in minutes (default: no limit)")
    parser.add_argument("--tokens", type=float, help=f"training tokens, including repeats (default: {TOKENS:g}, with --minutes no limit)")
    parser.add_argument("--peak", type=float, default=1.0, metavar="SHARE", help="share of the usual rates; lower it for a short run that continues another (default: 1)")
    parser.add_argument("--batch", type=float, default=8, help="a step's positions in contexts (default: 8)")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    vocabulary = load_tokenizer(args.work).get_vocab_size()
    config = replace(SHAPES[args.shape], vocab_size=vocabulary, max_position_embeddings=args.context)
    settings = Settings(args.start, args.early_exit, args.copying, dict(args.repeat), args.peak, tuple(map(tuple, args.teacher)))
    training = LlmTraining(args.work, args.batch, args.seed, config, args.name, settings)
    if training.path.exists():
        training.resume()
        print(json.dumps({"resumedAtStep": training.step}), flush=True)
    elif args.start:
        training.start_from(weights_path(args.work, args.start))
    tokens = (TOKENS if math.isinf(args.minutes) else math.inf) if args.tokens is None else args.tokens
    train(training, args.work, tokens, args.minutes * 60)
    print(json.dumps(training.curve[-1]))


if __name__ == "__main__":
    run(main)
