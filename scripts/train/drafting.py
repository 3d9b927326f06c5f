"""How verification rounds fall along an LLM's greedy answer, for draft models that see tokens only."""

import torch

from base import Teacher, split_of
from generate import wire
from model import Adapter


def rounds_of(matches: list[bool], probabilities: list[float], eta: float, longest: int) -> list[int]:
    """Accept lengths (tokens emitted, bonus included) of the verification rounds over one greedy answer.

    matches[i]: the draft model's choice for answer token i, given all tokens before it, is the LLM's;
    probabilities[i]: how sure it was. Token 0 comes from prefill. A round drafts until the probability falls under
    eta, that token included, or `longest` tokens (HAT Eq. 5); the longest matching prefix and one more token follow.
    """
    lengths = []
    at = 1
    while at < len(matches):
        accepted = 0
        while at + accepted < len(matches) and accepted < longest and matches[at + accepted]:
            accepted += 1
            if probabilities[at + accepted - 1] < eta:
                break
        lengths.append(min(accepted + 1, len(matches) - at))
        at += accepted + 1
    return lengths


@torch.no_grad()
def draft_choices(model: Teacher, adapter: Adapter, prompt: list[int], answer: list[int]) -> tuple[list[bool], list[float]]:
    """(matches, probabilities) of the draft model along the LLM's greedy answer; see rounds_of."""
    ids = torch.tensor([prompt + answer[:-1]])
    probabilities = model.head(adapter(wire(model.shallow(ids, split_of(model)))))[0, len(prompt) - 1 :].softmax(-1).cpu()
    best = probabilities.max(-1)  # one row per answer token
    return (best.indices == torch.tensor(answer)).tolist(), best.values.tolist()
