"""Trains the adapter with token embedding and feature (eagle.py) on its own roll-outs; resumes from <work>/adapter-eagle.pt.

    nice -n 10 python scripts/train/train_eagle.py --minutes 10

Each step draws where the prompt ends, hides the deep states before it and computes the first STEPS tokens of a draft at
every later position, features predicted as while drafting. Text and outputs are those of train_adapter.py.
"""

import argparse

import numpy as np
import torch
from torch import Tensor

from distil import Distillation, LossOf, add_budget, run_distillation, teacher_states
from eagle import FeatureAdapter, visible_features
from errors import run
from model import Llama
from train_adapter import distillation_loss

STEPS = 4  # drafted tokens in training; longer drafts read features like the last of these
STEP_DECAY = 0.8  # weight of draft token j's loss is this to the j-th power: later ones are reached less often
SHORTEST_PROMPT, LONGEST_PROMPT_SHARE = 16, 0.5


def make_adapter(model: Llama, seed: int) -> FeatureAdapter:
    """An untrained adapter for an LLM."""
    adapter = FeatureAdapter(model.config)
    adapter.initialise(seed)
    return adapter


def prompt_end(context: int, seed: int, step: int) -> int:
    """Index of the first generated token of a step's windows; the same for the same seed and step, so a run resumes."""
    latest = max(SHORTEST_PROMPT + 1, context * LONGEST_PROMPT_SHARE)
    return int(np.random.default_rng([seed, step]).integers(SHORTEST_PROMPT, latest))


def roll_out_loss(
    model: Llama, adapter: FeatureAdapter, shallow: Tensor, tokens: Tensor, f: Tensor, features: Tensor, keeps: Tensor
) -> tuple[Tensor, Tensor]:
    """(Σ_j 0.8^j · HAT Eq. 4 over the (j + 1)-th draft tokens / Σ_j 0.8^j, agreement per place in the draft [STEPS]).

    shallow, tokens, f, features: [batch, time, hidden], see FeatureAdapter.roll_out; keeps fp32 [STEPS, batch, time].
    """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = adapter.roll_out(shallow, tokens, features, model.model.norm, STEPS)
    loss, agreements = torch.zeros(()), []
    for step, result in enumerate(results):
        step_loss, agreement = distillation_loss(model, result, f, keeps[step])
        loss = loss + STEP_DECAY**step * step_loss
        agreements.append(agreement)
    return loss / sum(STEP_DECAY**step for step in range(STEPS)), torch.stack(agreements)


def draft_masks(keep: Tensor, first: int) -> Tensor:
    """keep [batch, time] → [STEPS, batch, time]: the (j + 1)-th draft token needs a row with a true feature j before it."""
    rows = torch.arange(keep.shape[1])
    return torch.stack([keep * (rows >= first + step) for step in range(STEPS)])


def eagle_loss_of(training: Distillation, compiled: bool) -> LossOf:
    """The loss of a training batch."""
    step_loss = torch.compile(roll_out_loss) if compiled else roll_out_loss

    def loss_of(inputs: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        shallow, f = teacher_states(training.model, inputs)
        first = prompt_end(inputs.shape[1], training.batches.seed, training.step)
        tokens = training.model.model.embed_tokens(inputs)
        features = visible_features(f, first)
        return step_loss(training.model, training.student, shallow, tokens, f, features, draft_masks(keep, first))

    return loss_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_budget(parser)
    args = parser.parse_args()
    run_distillation(args, "adapter-eagle", lambda model: make_adapter(model, args.seed), eagle_loss_of)


if __name__ == "__main__":
    run(main)
