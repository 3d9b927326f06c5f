"""Trains learned pairs at the cut (cut.py) for the demonstration LLM, one for each --noise and --width; resumes from <work>/cut-….pt.

    nice -n 10 python scripts/train/train_cut.py --width 128 32 --noise 0.5 1 2 --steps 150

The LLM is frozen. The loss is the cross-entropy against the LLM's own next-token distribution, plus --hide times what an inverter
knows of the token behind each code, trained at the same time: log(vocabulary) less its cross-entropy.
Writes <out>/cut-WIDTH-NOISE[-HIDE].safetensors, and prints perplexity, agreement and the inverter's success on held-out text.
"""

import argparse
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cut import Cut, make_inverter
from dataset import IGNORE, Batches, load_groups, load_pieces, some_of
from distil import distillation_loss
from errors import run
from export import load_llm_checkpoint
from files import load_checkpoint, save_checkpoint
from generate import wire
from model import SPLIT, Llama
from optimizer import rate
from paths import REPOSITORY, add_seed, add_threads, add_work

ADAM_LR = 0.004
CONTEXT, BATCH = 256, 4
SAVE_EVERY_S = 30.0
HELD_OUT_TOKENS = 4000


class CutTraining:
    """One pair, its inverter, and where its run stands: the content of <work>/<name>.pt."""

    def __init__(self, model: Llama, work: Path, width: int, noise: float, hide: float, seed: int):
        self.name = f"cut-{width}-{noise:g}" + (f"-{hide:g}" if hide else "")
        self.path, self.model, self.hide = work / f"{self.name}.pt", model, hide
        self.batches = Batches(load_pieces(work, "train", CONTEXT + 1), CONTEXT, BATCH, seed)
        self.cut, self.inverter = Cut(model.config, width, noise), make_inverter(width, model.config.vocab_size)
        self.optimizer = torch.optim.AdamW([*self.cut.parameters(), *self.inverter.parameters()], ADAM_LR, weight_decay=0.0)
        self.steps = 0
        if self.path.exists():
            state = load_checkpoint(self.path)
            for part in ("cut", "inverter", "optimizer"):
                getattr(self, part).load_state_dict(state[part])
            self.batches.go_to(*state["batches"])
            self.steps = state["steps"]
        else:
            self.cut.initialise(wire(model.shallow(self.batches.next()[0], SPLIT))[:, 1:].flatten(0, 1), seed)

    def save(self) -> None:
        parts = {part: getattr(self, part).state_dict() for part in ("cut", "inverter", "optimizer")}
        save_checkpoint(self.path, {**parts, "batches": (self.batches.epoch, self.batches.next_batch), "steps": self.steps})

    def step(self) -> tuple[Tensor, Tensor]:
        """One step; the two losses."""
        inputs, targets = self.batches.next()
        keep = (targets != IGNORE).float()
        with torch.no_grad():
            shallow = wire(self.model.shallow(inputs, SPLIT))
            deep = self.model.deep(shallow, SPLIT)
        code = self.cut.send(shallow)
        loss, _ = distillation_loss(self.model, self.model.deep(self.cut.read(code, shallow), SPLIT), deep, keep, 0.0, 1.0)
        known = keep[:, 1:].flatten() > 0
        token = inputs[:, 1:].flatten()[known]
        guessed = F.cross_entropy(self.inverter(code[:, 1:].flatten(0, 1)[known].detach()), token)
        total = loss + guessed
        if self.hide:
            # Of the same inverter, whose own weights this must not move.
            fixed = {name: weight.detach() for name, weight in self.inverter.named_parameters()}
            seen = torch.func.functional_call(self.inverter, fixed, (code[:, 1:].flatten(0, 1)[known],))
            total = total + self.hide * (math.log(self.model.config.vocab_size) - F.cross_entropy(seen, token)).clamp(min=0)
        total.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach(), guessed.detach()

    def train(self, steps: int) -> None:
        """Up to so many steps, those before a restart included."""
        saved, shown = time.monotonic(), []
        while self.steps < steps:
            for group in self.optimizer.param_groups:
                group["lr"] = ADAM_LR * rate(self.steps / steps)
            shown.append([value.item() for value in self.step()])
            self.steps += 1
            if time.monotonic() - saved >= SAVE_EVERY_S:
                self.save()
                print(json.dumps({"cut": self.name, "steps": self.steps, "losses": np.mean(shown, axis=0).round(3).tolist()}), flush=True)
                saved, shown = time.monotonic(), []
        self.save()


@torch.no_grad()
def measured(model: Llama, training: CutTraining, work: Path) -> dict[str, float]:
    """On held-out text: perplexity over the plain one, agreement of first choices, share of tokens that the inverter finds."""
    examples = [one for group in load_groups(work, "val", CONTEXT + 1).values() for one in some_of(group, HELD_OUT_TOKENS)]
    batches = Batches(examples, CONTEXT, BATCH, 0)
    torch.manual_seed(0)
    worse = same = found = tokens = 0.0
    for _ in range(len(batches.batches)):
        inputs, targets = batches.next()
        shallow = wire(model.shallow(inputs, SPLIT))
        code = training.cut.send(shallow)
        plain, sent = (model.head(model.deep(s, SPLIT)).flatten(0, 1) for s in (shallow, training.cut.read(code, shallow)))
        losses = [F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE, reduction="sum").item() for logits in (plain, sent)]
        learnt = targets.flatten() != IGNORE
        worse += losses[1] - losses[0]
        same += (plain.argmax(-1) == sent.argmax(-1))[learnt].sum().item()
        found += (training.inverter(code).argmax(-1) == inputs).flatten()[learnt].sum().item()
        tokens += learnt.sum().item()
    return {"perplexityRatio": round(math.exp(worse / tokens), 3), "sameTokens": round(same / tokens, 3), "found": round(found / tokens, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--llm", default=str(REPOSITORY / "models" / "demo" / "llm"), help="exported folder (default: models/demo/llm)")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "models" / "demo" / "cuts", help="default: models/demo/cuts")
    parser.add_argument("--width", type=int, nargs="+", default=[128], help="values of a code (default: 128)")
    parser.add_argument("--noise", type=float, nargs="+", default=[1.0], help="over the code's root mean square (default: 1)")
    parser.add_argument("--hide", type=float, nargs="+", default=[0.0], help="weight of what an inverter knows (default: 0)")
    parser.add_argument("--steps", type=int, default=150, help="of training for each pair (default: 150)")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_llm_checkpoint(args.work, args.llm)
    for hide, noise, width in itertools.product(args.hide, args.noise, args.width):
        torch.manual_seed(args.seed)
        training = CutTraining(model, args.work, width, noise, hide, args.seed)
        training.train(args.steps)
        training.cut.save(args.out / f"{training.name}.safetensors")
        print(json.dumps({"cut": training.name, **measured(model, training, args.work)}), flush=True)


if __name__ == "__main__":
    run(main)
