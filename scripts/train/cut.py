"""A learned pair at the cut: the device sends a noisy, narrower code of each shallow state, and the bridge's side makes a state of it.

z = W_d·RMSNorm(s), scaled to a root mean square of 1, plus Gaussian noise; s' = W_u·z + W_o·silu(W_g·z). The row of position 0 is the
chat template's first token, which is public: it is sent as it is.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from errors import InputError
from model import LlmConfig, RmsNorm

BRIDGE_WIDTH = 256  # of the bridge's side between its two matrices
INVERTER_WIDTH = 384


class Cut(nn.Module):
    """Both sides, with the noise that they are trained for, as a share of the code's root mean square."""

    def __init__(self, config: LlmConfig, width: int, noise: float):
        super().__init__()
        hidden = config.hidden_size
        self.width, self.noise = width, noise
        self.norm = RmsNorm(hidden, config.rms_norm_eps)
        self.down = nn.Linear(hidden, width, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.gate = nn.Linear(width, BRIDGE_WIDTH, bias=False)
        self.out = nn.Linear(BRIDGE_WIDTH, hidden, bias=False)

    @torch.no_grad()
    def initialise(self, states: Tensor, seed: int) -> None:
        """Begins with the directions in which states [positions, hidden] vary most, and the linear map that restores most of them."""
        torch.manual_seed(seed)
        normed = self.norm(states)
        _, _, directions = torch.linalg.svd(normed, full_matrices=False)
        self.down.weight.copy_(directions[: self.width])
        code = self.encode(states) + self.noise * torch.randn(len(states), self.width)
        self.up.weight.copy_(torch.linalg.lstsq(code, states).solution.T)
        nn.init.zeros_(self.out.weight)

    def encode(self, states: Tensor) -> Tensor:
        """[…, hidden] → the code without noise […, width]."""
        code = self.down(self.norm(states))
        return code * torch.rsqrt(code.square().mean(-1, keepdim=True) + 1e-6)

    def send(self, states: Tensor) -> Tensor:
        """[…, hidden] → what leaves the device […, width]."""
        code = self.encode(states)
        return code + self.noise * torch.randn_like(code)

    def read(self, code: Tensor, states: Tensor) -> Tensor:
        """[batch, time, width] → states for the middle part [batch, time, hidden]; those of position 0 are the device's own."""
        read = self.up(code) + self.out(F.silu(self.gate(code)))
        return torch.cat((states[:, :1], read[:, 1:]), dim=1)

    def save(self, path: Path) -> None:
        """Writes both sides in fp16."""
        path.parent.mkdir(parents=True, exist_ok=True)
        weights = {name.removesuffix(".weight"): tensor.detach().half().contiguous() for name, tensor in self.state_dict().items()}
        save_file({**weights, "noise": torch.tensor([self.noise]).half()}, path)


def load_cut(path: Path, config: LlmConfig) -> Cut:
    """Both sides as exported, frozen."""
    if not path.is_file():
        raise InputError(f"{path} is missing; run train_cut.py first")
    weights = {f"{name}.weight": tensor.float() for name, tensor in load_file(path).items()}
    cut = Cut(config, len(weights["down.weight"]), weights.pop("noise.weight").item())
    cut.load_state_dict(weights)
    return cut.requires_grad_(False).eval()


def make_inverter(width: int, vocab: int) -> nn.Module:
    """The adversary in training: a code → logits of the token that it came from."""
    return nn.Sequential(nn.Linear(width, INVERTER_WIDTH), nn.GELU(), nn.Linear(INVERTER_WIDTH, vocab))
