"""Trains the adapter with features (feature_adapter.py) on its own roll-outs; resumes by itself from <work>/adapter.pt. With --paper,
HAT's adapter Λ in the paper's form, from <work>/adapter-paper.pt. With --eagle, a draft head in EAGLE's layout (eagle_head.py), from
<work>/eagle.pt, which is exported to <work>/eagle.

    nice -n 10 python scripts/train/train_adapter.py --minutes 10
    nice -n 10 python scripts/train/train_adapter.py --paper --minutes 10
    nice -n 10 python scripts/train/train_adapter.py --eagle --minutes 10
    python scripts/train/train_adapter.py --base Qwen2.5-0.5B-Instruct --work own --split 2    # OWN_MODELS.md

Deep states are masked where a device does not have them: in prompts, and in a window before a random position of each step.
Then the first STEPS tokens of a draft are computed at every position, with features predicted as in drafting. Both forms start
from the Λ of the LLM's early exit if there is one.
Text: the training windows, and the LLM's own answers (rollouts.py) where <work>/rollouts.npz exists.
Writes <work>/adapter.pt and <work>/adapter-curve.json, or both of adapter-paper.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from base import BaseModel, Teacher
from distil import Distillation, LossOf, add_budget, distillation_loss, early_exit, run_distillation, teacher_states
from eagle_head import EagleHead, eagle_loss, export_eagle
from errors import InputError, run
from feature_adapter import FeatureAdapter, shift, visible_features
from model import Adapter

STEPS = 4  # drafted tokens in training; longer drafts read features like the last of these
STEP_DECAY = 0.8  # weight of draft token j's loss is this to the j-th power: later ones are reached less often
W_STATES, W_CE = 0.1, 1.0  # PAPER_W_… turned round: what counts is the token, the state only helps the next one
PAPER_W_STATES, PAPER_W_CE = 1.0, 0.1  # HAT Eq. 4
TEMPERATURE = 0.3  # of what the LLM says: between 0 (only its first choice) and what people decode at
SHORTEST_PROMPT, LONGEST_PROMPT_SHARE = 16, 0.5


def make_adapter(model: Teacher, work: Path, seed: int) -> FeatureAdapter:
    """An adapter for the LLM of <work>, initialised from its early exit's if there is one."""
    adapter = FeatureAdapter(model.config)
    adapter.initialise(seed)
    if plain := early_exit(model, work):
        adapter.start_from(plain)
    return adapter


def make_paper_adapter(model: Teacher, work: Path, seed: int) -> Adapter:
    """A plain adapter for the LLM of <work>: its early exit's if there is one, else untrained."""
    if plain := early_exit(model, work):
        return plain
    adapter = Adapter(model.config)
    adapter.initialise(seed)
    return adapter


def prompt_end(context: int, seed: int, step: int) -> int:
    """Index of the first generated token of a step's windows; the same for the same seed and step, so a run resumes."""
    latest = max(SHORTEST_PROMPT + 1, context * LONGEST_PROMPT_SHARE)
    return int(np.random.default_rng([seed, step]).integers(SHORTEST_PROMPT, latest))


def roll_out_loss(
    model: Teacher, adapter: FeatureAdapter, shallow: Tensor, deep: Tensor, features: Tensor, keeps: Tensor
) -> tuple[Tensor, Tensor]:
    """(Σ_j 0.8^j · distillation_loss over the (j + 1)-th draft tokens / Σ_j 0.8^j, agreement per place in the draft [STEPS]).

    shallow, deep, features: [batch, time, hidden], see FeatureAdapter.roll_out; keeps fp32 [STEPS, batch, time].
    """
    with torch.autocast(shallow.device.type, dtype=torch.bfloat16):
        results = adapter.roll_out(shallow, features, STEPS)
    loss, agreements = shallow.new_zeros(()), []
    for step, result in enumerate(results):
        step_loss, agreement = distillation_loss(model, result, deep, keeps[step], W_STATES, W_CE, TEMPERATURE)
        loss = loss + STEP_DECAY**step * step_loss
        agreements.append(agreement)
    return loss / sum(STEP_DECAY**step for step in range(STEPS)), torch.stack(agreements)


def generated_rows(keep: Tensor, first: int) -> Tensor:
    """Rows that stand for generated tokens, bool [batch, time]: those learnt (row i is what row i − 1 learns), from `first` on."""
    rows = torch.arange(keep.shape[1], device=keep.device)
    return (shift(keep[..., None], 1)[..., 0] > 0) & (rows >= first)


def draft_masks(keep: Tensor, generated: Tensor) -> Tensor:
    """keep [batch, time] → [STEPS, batch, time]: the (j + 1)-th draft token needs true features j rows before it and no gap since."""
    masks, reached = [], generated
    for step in range(STEPS):
        masks.append(keep * reached)
        reached = generated & (shift(reached[..., None].float(), 1)[..., 0] > 0)
    return torch.stack(masks)


def adapter_loss_of(training: Distillation) -> LossOf:
    """The loss of a training batch."""
    def loss_of(inputs: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        shallow, deep = teacher_states(training.model, inputs)
        generated = generated_rows(keep, prompt_end(inputs.shape[1], training.batches.seed, training.step))
        features = visible_features(deep, generated)
        return roll_out_loss(training.model, training.student, shallow, deep, features, draft_masks(keep, generated))

    return loss_of


def paper_adapter_loss(model: Teacher, adapter: Adapter, shallow: Tensor, deep: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """HAT Eq. 4 for shallow and deep states [batch, time, hidden]."""
    with torch.autocast(shallow.device.type, dtype=torch.bfloat16):
        states = adapter(shallow)
    return distillation_loss(model, states, deep, keep, PAPER_W_STATES, PAPER_W_CE)


def paper_adapter_loss_of(training: Distillation) -> LossOf:
    """The loss of a training batch."""
    return lambda inputs, keep: paper_adapter_loss(training.model, training.student, *teacher_states(training.model, inputs), keep)


def make_eagle(model: Teacher, seed: int) -> EagleHead:
    """An untrained head, whose first guess is W·[e; f]."""
    if isinstance(model, BaseModel):
        raise InputError("--eagle is for the models of this repository, without --base")
    torch.manual_seed(seed)
    head = EagleHead(model.config)
    head.layers[0].self_attn.start_silent(seed)
    torch.nn.init.zeros_(head.layers[0].mlp.down_proj.weight)
    return head


def eagle_loss_of(training: Distillation) -> LossOf:
    """The loss of a training batch."""
    def loss_of(inputs: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        return eagle_loss(training.model, training.student, inputs, teacher_states(training.model, inputs)[1], keep)

    return loss_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_budget(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--paper", action="store_true", help="train the paper's plain form: adapter-paper")
    form.add_argument("--eagle", action="store_true", help="train a draft head in EAGLE's layout, for brim model build --draft-head")
    args = parser.parse_args()
    if args.eagle:
        run_distillation(args, "eagle", lambda model: make_eagle(model, args.seed), eagle_loss_of)
        print(export_eagle(args.work))
        return
    name, make, loss_of = (
        ("adapter-paper", make_paper_adapter, paper_adapter_loss_of) if args.paper else ("adapter", make_adapter, adapter_loss_of)
    )
    run_distillation(args, name, lambda model: make(model, args.work, args.seed), loss_of)


if __name__ == "__main__":
    run(main)
