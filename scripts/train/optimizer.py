"""Muon for the layers' matrices, AdamW for the embedding and the norms, and one schedule for both."""

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


@torch.no_grad()
def orthogonalise(gradients: Tensor, steps: int = 5) -> Tensor:
    """Nearest semi-orthogonal matrices, roughly: [count, rows, columns] → same shape.

    Quintic Newton–Schulz iteration of Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon).
    """
    a, b, c = NEWTON_SCHULZ
    tall = gradients.shape[-2] > gradients.shape[-1]
    x = gradients.mT if tall else gradients
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum SGD whose update is orthogonalised; matrices of one shape are stepped as one batch."""

    def __init__(self, parameters: list[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for (rows, columns), weights in shapes.items():
                updates = [self._momentum(weight, group["momentum"]) for weight in weights]
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for weight, update in zip(weights, orthogonalise(torch.stack(updates)), strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-scale)

    def _momentum(self, weight: nn.Parameter, momentum: float) -> Tensor:
        """Nesterov momentum of the gradient; same shape as the weight."""
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(state["momentum"], momentum)


def make_optimizers(module: nn.Module, muon_lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    """[Muon over matrices other than the embedding, AdamW over the rest]; each group remembers its peak rate."""
    matrices = [weight for name, weight in module.named_parameters() if weight.dim() == 2 and "embed" not in name]
    rest = [weight for name, weight in module.named_parameters() if weight.dim() != 2 or "embed" in name]
    optimizers: list[torch.optim.Optimizer] = [
        Muon(matrices, muon_lr, weight_decay=0.1),
        torch.optim.AdamW(rest, adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def rate(progress: float, warm_up: float = 0.01, decay_from: float = 0.3) -> float:
    """Share of the peak rate at `progress` 0..1: linear warm-up, constant, linear decay to zero."""
    if progress < warm_up:
        return (progress + warm_up / 10) / (1.1 * warm_up)
    return max(0.0, min(1.0, (1 - progress) / (1 - decay_from)))


def set_rate(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """Sets every group's rate to `share` of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * share
