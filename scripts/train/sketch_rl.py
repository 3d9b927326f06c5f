"""Sketch tuning, step 3: the LLM is tuned for sketches of higher reward, close to the original LLM (PICE §IV-D).

    python scripts/train/sketch_rl.py --minutes 6              # <work>/sketch-reward.pt → <work>/llm-sketch.pt
    python scripts/train/sketch_rl.py --steps 120 --gamma 0.2  # without a time limit, closer to the LLM

Maximises E[(1 − γ)·R(x, r) − γ·KL(π ‖ SFT)] by REINFORCE with a leave-one-out baseline (RLOO, Ahmadian et al.,
arXiv:2402.14740): of several sketches of one prompt, each is compared with the mean of the others. KL is the sampled
log-ratio, summed over the sketch's tokens and included in the reward, so the gradient is that of the objective itself.
An empty or unfinished sketch gets the lowest reward, because R was not trained on any. A second KL, of the SFT model's next-token
distributions on training text of all other tasks, preserves those (--guard). π and SFT both use the temperature
of serving.

Why not TRL: its PPO trains a value model too and samples off-policy for epochs of clipped steps, which pays off if
sampling is expensive. Its RLOO would work, but needs the reward model as a transformers model and the guard as a patched trainer,
and it pads prompts. Batches of one length and R on SFT's own lower layers do less work on two CPU cores. The algorithm is 20
lines. <work>/llm-sketch.pt is saved every minute; run it again to resume.
"""

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from curves import Curve, curve_path, write_curve
from dataset import IGNORE, TASKS, Batches, load_groups
from base import fingerprint
from encode import Encoder, own_encoder
from errors import InputError, run
from evaluate_tasks import Asker
from export import load_llm_checkpoint
from files import load_checkpoint, save_checkpoint
from model import Llama
from own_answers import load_own_answers
from paths import add_seed, add_texts, add_threads, add_work
from sketch_pairs import LONGEST_SKETCH, TEMPERATURE, SketchTask, ended, sample_sketches, task_batches
from sketch_reward import RewardModel, load_reward, padded
from tasks import load_turns

TUNED = "llm-sketch"
ADAM_LR = 1e-4
PROMPTS, SAMPLES = 4, 8  # per step, and sketches of each
LOWEST_REWARD = -3.0  # in standard deviations of R
GUARD_CONTEXT = 512
SAVE_EVERY_S, SHOW_EVERY = 60.0, 10


@dataclass(frozen=True)
class Settings:
    """γ of the objective, the weight of the guard, the rate of Adam, sketches per prompt, the seed."""

    gamma: float = 0.1
    guard: float = 1.0
    rate: float = ADAM_LR
    samples: int = SAMPLES
    seed: int = 1


def leave_one_out(returns: Tensor) -> Tensor:
    """Returns [prompts, samples] → each less the mean of its prompt's others, same shape."""
    samples = returns.shape[1]
    return (returns - returns.mean(1, keepdim=True)) * samples / (samples - 1)


def sketch_log_probs(model: Llama, states: Tensor, first: int, ids: Tensor, prompt: int) -> Tensor:
    """States after the first `first` layers [rows, time, hidden] of ids [rows, time] → log π of ids from `prompt` on."""
    deep = model.deep(states, first)[:, prompt - 1 : -1]
    log_p = (model.head(deep) / TEMPERATURE).log_softmax(-1)
    return log_p.gather(-1, ids[:, prompt:, None])[..., 0]


def guard_batches(work: Path, seed: int) -> Batches:
    """Windows of training text of every task but the sketches, one a step."""
    groups = load_groups(work, "train", GUARD_CONTEXT + 1, TASKS)
    pieces = [piece for task, group in groups.items() if not task.startswith("sketch-") for piece in group]
    if not pieces:
        raise InputError(f"{work / TASKS} has no training text of other tasks; create it again with tasks.py")
    return Batches(pieces, GUARD_CONTEXT, 1, seed)


def guard_loss(policy: Llama, sft: Llama, inputs: Tensor, targets: Tensor) -> Tensor:
    """KL(SFT ‖ π) in nats per trained token, of [windows, time]."""
    learnt = targets != IGNORE
    with torch.no_grad():
        wanted = sft(inputs)[learnt].log_softmax(-1)
    given = policy(inputs)[learnt].log_softmax(-1)
    return (wanted.exp() * (wanted - given)).sum(-1).mean()


class SketchTuning:
    """Policy, optimiser, data position and curve of one run: the content of a checkpoint."""

    def __init__(self, work: Path, encoder: Encoder, batches: list[list[SketchTask]], reward: RewardModel, settings: Settings):
        self.path, self.settings = work / f"{TUNED}.pt", settings
        self.sft, self.policy = load_llm_checkpoint(work), load_llm_checkpoint(work).requires_grad_(True)
        self.llm = fingerprint(self.sft)
        self.asker = Asker(self.policy, encoder, LONGEST_SKETCH)
        self.reward, self.batches = reward, batches
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), settings.rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.guard = guard_batches(work, settings.seed)
        self.step, self.seconds = 0, 0.0
        self.curve: list[dict] = []

    def resume(self) -> None:
        """Resumes from the checkpoint; InputError if it belongs to another LLM or was run with other settings."""
        state = load_checkpoint(self.path)
        if state["llm"] != self.llm or state["settings"] != asdict(self.settings):
            raise InputError(f"{self.path} is of another LLM checkpoint or other options; delete it to restart")
        self.policy.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        g = self.guard
        self.guard = Batches(g.pieces, g.context, g.batch, g.seed, state["epoch"], state["next_window"])
        self.step, self.seconds, self.curve = state["step"], state["seconds"], state["curve"]

    def save(self) -> None:
        """Writes the checkpoint, then the curve."""
        state = {
            "config": self.policy.config.to_dict(),
            "model": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "llm": self.llm,
            "settings": asdict(self.settings),
            "epoch": self.guard.epoch,
            "next_window": self.guard.next_window,
            "step": self.step,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        save_checkpoint(self.path, state)
        write_curve(curve_path(self.path), Curve(self.curve, asdict(self.settings)))

    def rewards(self, sketches: Sequence[list[int]], states: Tensor, ends: Tensor) -> Tensor:
        """R [rows] of sketches whose states below the reward model's layers are given."""
        usable = torch.tensor([ended(self.asker, sketch) for sketch in sketches])
        return torch.where(usable, self.reward(states, ends), torch.tensor(LOWEST_REWARD))

    def one_step(self) -> dict[str, float]:
        """Samples, judges and learns once. {"reward", "kl": nats per sketch, "tokens": per sketch, "guard": nats per token}."""
        s, batch = self.settings, self.batches[self.step % len(self.batches)]
        generator = torch.Generator().manual_seed(s.seed * 1_000_003 + self.step)
        sampled = sample_sketches(self.asker, [task.prompt for task in batch], s.samples, generator)
        sketches = [sketch for group in sampled for sketch in group]
        ids, ends = padded([task.prompt + sketch for task, group in zip(batch, sampled, strict=True) for sketch in group])
        prompt, first = len(batch[0].prompt), self.reward.first
        written = torch.arange(ids.shape[1] - prompt) < torch.tensor([[len(sketch)] for sketch in sketches])
        with torch.no_grad():
            states = self.sft.shallow(ids, first)
            reward = self.rewards(sketches, states, ends)
            sft_log_p = sketch_log_probs(self.sft, states, first, ids, prompt)
        log_p = sketch_log_probs(self.policy, self.policy.shallow(ids, first), first, ids, prompt)
        kl = ((log_p.detach() - sft_log_p) * written).sum(1)
        returns = (1 - s.gamma) * reward - s.gamma * kl
        advantage = leave_one_out(returns.view(len(batch), s.samples)).flatten()
        guard = guard_loss(self.policy, self.sft, *self.guard.next())
        (s.guard * guard - (advantage * (log_p * written).sum(1)).mean()).backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        tokens = sum(map(len, sketches)) / len(sketches) - 1
        return {"reward": reward.mean().item(), "kl": kl.mean().item(), "tokens": tokens, "guard": guard.item()}


def tune(tuning: SketchTuning, max_seconds: float, max_steps: float) -> None:
    """Tunes until a budget is used up, saving every minute and at the end."""
    saved = tuning.seconds
    while tuning.step < max_steps and tuning.seconds < max_seconds:
        started = time.perf_counter()
        figures = tuning.one_step()
        tuning.seconds += time.perf_counter() - started
        tuning.curve.append({"step": tuning.step, **{name: round(value, 4) for name, value in figures.items()}})
        if tuning.step % SHOW_EVERY == 0:
            print(json.dumps({"seconds": round(tuning.seconds), **recent(tuning.curve)}), flush=True)
        if tuning.seconds - saved >= SAVE_EVERY_S:
            tuning.save()
            saved = tuning.seconds
    tuning.save()


def recent(curve: Sequence[dict]) -> dict[str, float]:
    """The last step, and means over the last SHOW_EVERY."""
    last = curve[-SHOW_EVERY:]
    means = {name: round(sum(point[name] for point in last) / len(last), 4) for name in ("reward", "kl", "tokens", "guard")}
    return {"step": last[-1]["step"], **means}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = Settings()
    add_texts(parser)
    add_work(parser)
    parser.add_argument("--minutes", type=float, default=math.inf, help="tuning time in minutes, summed over restarts (default: no limit)")
    parser.add_argument("--steps", type=float, default=200, help="default: 200")
    parser.add_argument("--gamma", type=float, default=defaults.gamma, help=f"weight of the KL term, 0..1 (default: {defaults.gamma})")
    parser.add_argument("--guard", type=float, default=defaults.guard, help=f"weight of the KL term on other tasks (default: {defaults.guard})")
    parser.add_argument("--rate", type=float, default=defaults.rate, help=f"learning rate of Adam (default: {defaults.rate})")
    parser.add_argument("--samples", type=int, default=defaults.samples, help=f"sketches per prompt (default: {defaults.samples})")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    if not 0 <= args.gamma <= 1 or args.samples < 2:
        raise InputError("--gamma must be 0..1 and --samples at least 2: a sketch is compared with the others of its prompt")
    torch.set_num_threads(args.threads)
    encoder, llm = own_encoder(args.work), load_llm_checkpoint(args.work)
    settings = Settings(args.gamma, args.guard, args.rate, args.samples, args.seed)
    reward = load_reward(args.work, llm)
    turns, answers = load_turns(args.corpora, args.data), load_own_answers(args.work)
    batches = task_batches(Asker(llm, encoder, LONGEST_SKETCH), turns, answers, args.seed, PROMPTS)
    tuning = SketchTuning(args.work, encoder, batches, reward, settings)
    if tuning.path.exists():
        tuning.resume()
        print(json.dumps({"resumedAtStep": tuning.step}), flush=True)
    tune(tuning, args.minutes * 60, args.steps)
    print(json.dumps(recent(tuning.curve) if tuning.curve else {"step": 0}))


if __name__ == "__main__":
    run(main)
