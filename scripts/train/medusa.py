"""Four Medusa heads (Cai et al., arXiv:2401.10774) on the frozen LLM, and their greedy accept length."""

from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS = 4
RANKS = 4  # choices per head that a tree may use
TREE_NODES = 8  # U-Medusa's tree of HAT: 'tree verification of size 8'
TreePath = tuple[int, ...]  # ranks of the heads' choices from the root: (0,) head 1's first, (0, 2) head 2's third after it


class Medusa(nn.Module):
    """HEADS residual blocks; head k guesses the token k places after the LLM's own next one.

    h_k = f + SiLU(W_k f + b_k), f the state after the LLM's final norm, and the LLM's own head on h_k.
    """

    def __init__(self, hidden: int, heads: int = HEADS):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(heads))

    def initialise(self) -> None:
        """Zero, so that every head starts as the LLM's own."""
        for block in self.blocks:
            nn.init.zeros_(block.weight)
            nn.init.zeros_(block.bias)

    def forward(self, f: Tensor) -> Tensor:
        """f [..., hidden] → [heads, ..., hidden], each to be put through the LLM's head."""
        return torch.stack([f + F.silu(block(f)) for block in self.blocks])


def choices(medusa: Medusa, f: Tensor, head: Tensor, ranks: int) -> Tensor:
    """The heads' best tokens, int64 [positions, heads, ranks], for f [positions, hidden] and the head's [vocab, hidden]."""
    return F.linear(medusa(f), head).topk(ranks, dim=-1).indices.transpose(0, 1)


def rank_rates(guesses: Tensor, answer: Tensor) -> Tensor:
    """How often head k's choice of each rank is the token it stands for; fp32 [heads, ranks].

    guesses [positions, heads, ranks] at the state from which answer[position] (int64 [positions]) was chosen.
    """
    positions, heads, ranks = guesses.shape
    rates = torch.zeros(heads, ranks)
    for head in range(min(heads, positions - 1)):
        ahead = head + 1
        rates[head] = (guesses[:-ahead, head] == answer[ahead:, None]).float().mean(0)
    return rates


def best_tree(rates: Tensor, nodes: int) -> list[TreePath]:
    """The `nodes` likeliest paths, taking heads as independent; parents come along because they are likelier still."""
    heads, ranks = rates.shape
    value: dict[TreePath, float] = {}
    for depth in range(1, heads + 1):
        for path in product(range(ranks), repeat=depth):
            parent = value[path[:-1]] if depth > 1 else 1.0
            value[path] = parent * float(rates[depth - 1, path[-1]])
    return sorted(sorted(value, key=lambda path: (-value[path], len(path), path))[:nodes], key=lambda path: (len(path), path))
